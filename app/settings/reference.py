"""Writes docs/reference/configuration.md from the settings: `python -m app.settings.reference [--check]`.

With `--check` it writes nothing and exits with 1 when the page differs. The texts are in `app/settings/fields`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from app.settings.describe import allowed, plain, unit, variable
from app.settings.fields import Settings

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"

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


def page() -> str:
    """The whole page."""
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


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` report whether it is up to date."""
    if arguments == ["--check"]:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page():
            return 0
        print(f"{PAGE.name} is out of date; run `make docs` and commit it.", file=sys.stderr)
        return 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
