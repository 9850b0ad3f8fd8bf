"""Writes what comes from the settings: `python -m app.settings.reference [--check]`.

    app/settings/fields -> docs/reference/configuration.md, knative/manifests/base/settings.env

With `--check` it writes nothing and exits with 1 when a file differs.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from app.settings.describe import allowed, plain, unit, variable
from app.settings.fields import Settings
from app.settings.generated import REPOSITORY, write_or_check

PAGE = REPOSITORY / "docs" / "reference" / "configuration.md"
SETTINGS_FILE = REPOSITORY / "knative" / "manifests" / "base" / "settings.env"

_INTRODUCTION = """\
# Configuration

<!-- Generated from app/settings/fields.py by `make docs`; edits here are lost. -->

Every setting is an environment variable with the prefix `PENSTOCK_`. Penstock looks for a value in this order; the
first source that has one wins:

1. the command line (`penstock up --kafka ...`, `faust -A app worker --web-port ...`),
2. the environment,
3. the file that `PENSTOCK_CONFIG` names: lines `PENSTOCK_NAME=value`, `#` begins a comment,
4. for `PENSTOCK_HTTP_PORT` only, the plain variable `PORT`,
5. the default below.

If a value is not valid, or a line of the file cannot be read, Penstock exits with code 2 and one sentence for each
problem: name, value, reason and hint. A variable with the prefix that is not a setting causes a warning with the most
similar name. `penstock config show` prints every value and its source; secrets are masked, and so are a user name and
password in a URL. `penstock up` sets [some of them](command-line.md#up) itself.
"""

_FILE_HEADING = """\
# Every setting with its default. Generated from app/settings/fields.py by `make docs`; edits here are lost: set values
# in the kustomization of an overlay, which makes the ConfigMap from both. It is also a file for PENSTOCK_CONFIG.
#
# Leave these out: the pods set PENSTOCK_ROLE and PENSTOCK_RESOURCES themselves; Knative Serving chooses the port for
# events with PORT; probes, monitoring and network policies name the port 8081.
"""


def files() -> dict[Path, str]:
    """Returns every generated file with its content."""
    return {PAGE: page(), SETTINGS_FILE: settings_file()}


def page() -> str:
    """Returns the whole page."""
    return _INTRODUCTION + "".join(f"{line}\n" for line in _rows())


def _rows() -> Iterator[str]:
    for name, field in Settings.model_fields.items():
        if name in Settings.sections:
            yield from ("", f"## {Settings.sections[name]}", "")
            yield from ("| Setting | Default | Unit | Meaning | Allowed |", "|---|---|---|---|---|")
        default = f"`{plain(field.default)}`" if plain(field.default) else "(empty)"
        phrase = allowed(field).removesuffix(f" ({unit(field)})")
        phrase = "" if phrase.endswith(unit(field)) else phrase  # it would only repeat the unit
        yield f"| `{variable(name)}` | {default} | {unit(field)} | {field.description} | {phrase} |"


def settings_file() -> str:
    """Returns all settings as lines `#PENSTOCK_NAME=default`, each below its meaning."""
    return _FILE_HEADING + "".join(f"{line}\n" for line in _settings_lines())


def _settings_lines() -> Iterator[str]:
    for name, field in Settings.model_fields.items():
        if name in Settings.sections:
            yield from ("", f"## {Settings.sections[name]}")
        note = f"{field.description} Allowed: {allowed(field)}."
        yield from ("", *textwrap.wrap(note, 120, initial_indent="# ", subsequent_indent="# "))
        yield f"#{variable(name)}={plain(field.default)}"


if __name__ == "__main__":
    raise SystemExit(write_or_check(files(), sys.argv[1:]))
