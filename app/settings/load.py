"""Reads the settings from their sources. No other module reads them from the environment.

    default  <  file named by PENSTOCK_CONFIG  <  environment  <  command line          (the rightmost wins)

The file has lines `PENSTOCK_NAME=value`. Invalid values end the start; the error lists all of them, with name, value
and hint. A name that is not a setting causes a warning with the most similar one.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from app.settings.describe import SettingRow, allowed, describe, example, is_secret, refused, variable
from app.settings.fields import PREFIX, Settings
from knative.errors import UsageError

if TYPE_CHECKING:
    from dotenv.parser import Binding

__all__ = [
    "CONFIG_VARIABLE",
    "SettingRow",
    "Settings",
    "describe",
    "load_settings",
]

CONFIG_VARIABLE = PREFIX + "CONFIG"
_COMMAND_LINE = "command line"
_ENVIRONMENT = "environment"
_PLAIN_PORT = "environment (PORT)"


def load_settings(overrides: Mapping[str, str] | None = None) -> Settings:
    """Returns the settings of this process. `overrides`: field name -> text, from the command line.

    Raises UsageError (exit code 2) with one sentence for each invalid value, and for an override that is not a setting.
    """
    given = dict(overrides or {})
    unknown = sorted(given.keys() - Settings.model_fields.keys())
    if unknown:
        problems = "; ".join(f"{name} is not a setting{_nearest(name)}" for name in unknown)
        raise UsageError(f"{problems}.", "`penstock config show` lists all settings.")
    file_values, source_of_file, file_names = _read_file(os.environ.get(CONFIG_VARIABLE, ""))
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, layer in (
        (_PLAIN_PORT, _plain_port()),
        (source_of_file, file_values),
        (_ENVIRONMENT, _environment()),
        (_COMMAND_LINE, given),
    ):
        values.update(layer)
        sources.update(dict.fromkeys(layer, source))
    try:
        settings = Settings(**values)
    except ValidationError as problem:
        raise UsageError("\n".join(_sentences(problem, sources))) from None
    settings._sources = sources
    settings._warnings = tuple(_unknown(os.environ, _ENVIRONMENT) + _unknown(file_names, source_of_file))
    if settings.role == "controller" and settings.processes not in ("1", "auto"):
        what = f"{PREFIX}PROCESSES={settings.processes} has no effect: a worker of the role controller has one process."
        settings._warnings += (what,)
    return settings


def settings_file() -> Path | None:
    """Returns the file that has settings, if there is one."""
    path = os.environ.get(CONFIG_VARIABLE, "")
    return Path(path) if path else None


def _environment() -> dict[str, str]:
    """Returns the settings among the variables, in capital or small letters."""
    texts = {name.upper(): text for name, text in os.environ.items()}
    return {field: texts[variable(field)] for field in Settings.model_fields if variable(field) in texts}


def _plain_port() -> dict[str, str]:
    """Returns the variable PORT, which some platforms set. The weakest source."""
    port = os.environ.get("PORT", "")
    return {"http_port": port} if port else {}


def _read_file(path: str) -> tuple[dict[str, str], str, tuple[str, ...]]:
    """Returns the settings in the file at `path` ("" = no file), the name of this source, and all names in the file."""
    if not path:
        return {}, "", ()
    if not Path(path).is_file():
        raise UsageError(
            f"The settings file {path} (from {CONFIG_VARIABLE}) does not exist.",
            "Create the file with lines PENSTOCK_NAME=value, or unset the variable.",
        )
    from dotenv.parser import parse_stream

    try:
        with Path(path).open(encoding="utf-8") as file:
            lines = list(parse_stream(file))
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(
            f"The settings file {path} cannot be read ({problem}).", "Fix the file, or unset the variable."
        ) from problem
    bad = [_number(line) for line in lines if line.error or (line.key and line.value is None)]
    if bad:  # the lines are not shown: they may contain a password
        what = f"{'Lines' if len(bad) > 1 else 'Line'} {', '.join(bad)} of the settings file {path} cannot be read."
        raise UsageError(what, 'Write PENSTOCK_NAME=value, and close quotes ("..."); # begins a comment.')
    pairs = {line.key: line.value for line in lines if line.key}
    fields = {variable(name): name for name in Settings.model_fields}
    values = {fields[name.upper()]: value or "" for name, value in pairs.items() if name.upper() in fields}
    return values, f"file {path}", tuple(pairs)


def _number(line: Binding) -> str:
    """Returns the line number in the file. The parser's own number is that of the empty lines before it."""
    text = line.original.string
    return str(line.original.line + text[: len(text) - len(text.lstrip())].count("\n"))


def ignored_variables() -> list[str]:
    """Returns a sentence for each variable of the environment that looks like a setting and is not one."""
    return _unknown(os.environ, _ENVIRONMENT)


def _unknown(seen: Iterable[str], source: str) -> list[str]:
    """Returns a warning for each name with our prefix that is not a setting."""
    variables = {variable(name) for name in Settings.model_fields} | {CONFIG_VARIABLE}
    unknown = sorted(name for name in seen if name.upper().startswith(PREFIX) and name.upper() not in variables)
    return [
        f"{name} (from the {source}) is not a setting and is ignored{_nearest(name[len(PREFIX) :])}."
        for name in unknown
    ]


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), Settings.model_fields, n=1)
    return f" (did you mean {variable(near[0])}?)" if near else ""


def _sentences(problem: ValidationError, sources: Mapping[str, str]) -> list[str]:
    """Returns one sentence for each invalid value: name, value, reason and hint."""
    sentences = []
    for error in problem.errors(include_url=False):
        why = str(error["ctx"]["error"]) if error["type"] == "value_error" else _lower_first(error["msg"])
        if not error["loc"]:
            sentences.extend(why.splitlines())  # contradictions between settings, with their own hints
            continue
        name = str(error["loc"][0])
        field = Settings.model_fields[name]
        source = sources.get(name, "default")
        label = "PORT" if source == _PLAIN_PORT else variable(name)
        value = "(hidden)" if is_secret(field) else refused(error["input"])
        if error["type"] == "literal_error":  # what is allowed says it all
            sentences.append(f"{label}={value} from the {source} is not valid; set it to {allowed(field)}.")
            continue
        sentences.append(
            f"{label}={value} from the {source} is not valid: {why.rstrip('.')}; set it to {allowed(field)}"
            + (f", such as {example(field)}." if example(field) else ".")
        )
    return sentences


def _lower_first(text: str) -> str:
    return text.replace("Input should be", "it should be").replace("String should", "it should")
