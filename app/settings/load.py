"""Where the values of the settings come from. The only module that reads the environment.

    default  <  file named by PENSTOCK_CONFIG  <  environment  <  command line          (the right one wins)

The file has lines `PENSTOCK_NAME=value`. A wrong value is refused at start: every problem is listed, each with name,
value and cure. Refuses to guess: a name that is no setting is warned about with the nearest one, never obeyed.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dotenv.parser import Binding, parse_stream
from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource

from app.settings.describe import SettingRow, allowed, describe, example, is_secret, refused, variable
from app.settings.fields import PREFIX, Settings
from knative.errors import UsageError

__all__ = [
    "CONFIG_VARIABLE",
    "SettingRow",
    "Settings",
    "default_variables",
    "describe",
    "load_settings",
    "started_by_spark_submit",
]

CONFIG_VARIABLE = PREFIX + "CONFIG"
_COMMAND_LINE = "command line"
_ENVIRONMENT = "environment"
_PLAIN_PORT = "environment (PORT)"


def load_settings(overrides: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process. `overrides`: field name -> text, from the command line.

    Raises UsageError (exit code 2) with one sentence for each wrong value, and for an override that is no setting.
    """
    given = dict(overrides or {})
    strangers = sorted(given.keys() - Settings.model_fields.keys())
    if strangers:
        told = "; ".join(f"{name} is no setting{_nearest(name)}" for name in strangers)
        raise UsageError(f"{told}.", "`penstock config show` has them all.")
    file_values, source_of_file, file_names = _read_file(os.environ.get(CONFIG_VARIABLE, ""))
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, found in (
        (_PLAIN_PORT, _plain_port()),
        (source_of_file, file_values),
        (_ENVIRONMENT, EnvSettingsSource(Settings)()),
        (_COMMAND_LINE, given),
    ):
        values.update(found)
        sources.update(dict.fromkeys(found, source))
    try:
        settings = Settings(**values)
    except ValidationError as problem:
        raise UsageError("\n".join(_sentences(problem, sources))) from None
    settings._sources = sources
    settings._warnings = tuple(_unknown(os.environ, _ENVIRONMENT) + _unknown(file_names, source_of_file))
    return settings


def default_variables(values: Mapping[str, str]) -> None:
    """Set variables that a library reads itself, unless the environment has them."""
    for name, value in values.items():
        os.environ.setdefault(name, value)


def started_by_spark_submit() -> bool:
    """Whether this process is a driver that spark-submit started, and has its session's place from it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _plain_port() -> dict[str, str]:
    """What platforms that choose the port say; the weakest of the sources."""
    port = os.environ.get("PORT", "")
    return {"http_port": port} if port else {}


def _read_file(path: str) -> tuple[dict[str, str], str, tuple[str, ...]]:
    """Known settings of the file at `path` ("" = none), what to call it, and all names in it."""
    if not path:
        return {}, "", ()
    if not Path(path).is_file():
        raise UsageError(
            f"{CONFIG_VARIABLE}={path!r} names no file.", "Write one with lines PENSTOCK_NAME=value, or unset it."
        )
    try:
        with Path(path).open(encoding="utf-8") as file:
            lines = list(parse_stream(file))
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(f"The settings file {path} cannot be read ({problem}).", "Mend it or unset it.") from problem
    bad = [_number(line) for line in lines if line.error or (line.key and line.value is None)]
    if bad:  # not shown: there may be a password in them
        what = f"{'Lines' if len(bad) > 1 else 'Line'} {', '.join(bad)} of the settings file {path} cannot be read."
        raise UsageError(what, 'Write PENSTOCK_NAME=value, with quotes ("...") that are closed; # begins a comment.')
    pairs = {line.key: line.value for line in lines if line.key}
    known = {variable(name): name for name in Settings.model_fields}
    values = {known[name.upper()]: value or "" for name, value in pairs.items() if name.upper() in known}
    return values, f"file {path}", tuple(pairs)


def _number(line: Binding) -> str:
    """Where it is in the file; the parser counts from the empty lines before it."""
    text = line.original.string
    return str(line.original.line + text[: len(text) - len(text.lstrip())].count("\n"))


def _unknown(seen: Iterable[str], source: str) -> list[str]:
    """A sentence for each name with our prefix that is no setting."""
    known = {variable(name) for name in Settings.model_fields} | {CONFIG_VARIABLE}
    strangers = sorted(name for name in seen if name.upper().startswith(PREFIX) and name.upper() not in known)
    return [
        f"{name} (from the {source}) is no setting and is ignored{_nearest(name[len(PREFIX) :])}." for name in strangers
    ]


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), Settings.model_fields, n=1)
    return f" (did you mean {variable(near[0])}?)" if near else ""


def _sentences(problem: ValidationError, sources: Mapping[str, str]) -> list[str]:
    """One sentence with name, value, reason and cure for each thing that is wrong."""
    sentences = []
    for error in problem.errors(include_url=False):
        why = str(error["ctx"]["error"]) if error["type"] == "value_error" else _lower_first(error["msg"])
        if not error["loc"]:
            sentences.extend(why.splitlines())  # contradictions say their own cure
            continue
        name = str(error["loc"][0])
        field = Settings.model_fields[name]
        source = sources.get(name, "default")
        label = "PORT" if source == _PLAIN_PORT else variable(name)
        shown = "(hidden)" if is_secret(field) else refused(error["input"])
        sentences.append(
            f"{label}={shown} from the {source} is wrong: {why.rstrip('.')}; set it to {allowed(field)}"
            + (f", such as {example(field)}." if example(field) else ".")
        )
    return sentences


def _lower_first(text: str) -> str:
    return text.replace("Input should be", "it should be").replace("String should", "it should")
