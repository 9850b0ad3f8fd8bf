"""Describes settings for people: rows with value and source, allowed values, how a value is written.

Secrets are masked, in rows and in error messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import annotated_types
from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic.fields import FieldInfo

from app.settings.fields import PREFIX

MASK = "********"
_USER = re.compile(r"(?<=://)[^/?#\s]*@")


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as `penstock config show` prints it; `name` is the environment variable."""

    name: str
    value: str
    source: str
    unit: str
    default: str
    meaning: str


def describe(settings: BaseModel) -> list[SettingRow]:
    """Returns a row for each setting, in the order of the reference."""
    sources = getattr(settings, "sources", {})
    return [
        SettingRow(
            name=variable(name),
            value=plain(getattr(settings, name)),
            source=sources.get(name, "default"),
            unit=unit(field),
            default=plain(field.default),
            meaning=field.description or "",
        )
        for name, field in type(settings).model_fields.items()
    ]


def variable(name: str) -> str:
    """Returns the environment variable of a field."""
    return PREFIX + name.upper()


def unit(field: FieldInfo) -> str:
    """Returns the unit or the kind of the value, such as `seconds` or `path`."""
    return _extra(field, "unit")


def example(field: FieldInfo) -> str:
    """Returns an example of a value: the default, or the field's own example."""
    return plain(field.default) or _extra(field, "example")


def _extra(field: FieldInfo, name: str) -> str:
    extra = field.json_schema_extra
    return str(extra.get(name, "")) if isinstance(extra, dict) else ""


def is_secret(field: FieldInfo) -> bool:
    """Returns whether the value must not be shown."""
    annotation = field.annotation
    return any(kind in (SecretStr, SecretBytes) for kind in (annotation, *get_args(annotation)))


def plain(value: Any) -> str:
    """Returns a value as the environment has it. Secrets are masked, and so is everything before `@` in a URL."""
    if isinstance(value, (SecretStr, SecretBytes)):
        return MASK if value.get_secret_value() else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return _USER.sub(f"{MASK}@", str(value))


def refused(value: object) -> str:
    """Returns an invalid value as messages show it. Masked before an `@`, where a password may be."""
    if not isinstance(value, str):
        return repr(value)
    scheme, apart, rest = value.rpartition("://")
    _, at, host = rest.rpartition("@")
    return repr(f"{scheme}{apart}{MASK}@{host}" if at else value)


def allowed(field: FieldInfo) -> str:
    """Returns the allowed values as a phrase: `a whole number from 1 to 65535 (port)`."""
    if get_origin(field.annotation) is Literal:
        return "one of " + ", ".join(get_args(field.annotation))
    counted = f" ({unit(field)})" if unit(field) else ""
    if field.annotation is bool:
        return "true or false"
    if field.annotation in (int, float):
        kind = "a whole number" if field.annotation is int else "a number"
        return kind + "".join(_bounds(field)) + counted
    kind = unit(field)
    if ":" in kind:  # a pattern, such as host:port
        return kind
    return f"{'an' if kind.startswith('I') else 'a'} {kind}"


def _bounds(field: FieldInfo) -> Iterator[str]:
    for limit in field.metadata:
        if isinstance(limit, annotated_types.Ge):
            yield f" from {plain(limit.ge)}"
        if isinstance(limit, annotated_types.Le):
            yield f" to {plain(limit.le)}"
