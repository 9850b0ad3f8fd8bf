"""Settings told to people: rows with value and origin, what a field allows, how it is written.

Refuses to show a secret, in rows and in error messages alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import annotated_types
from pydantic import SecretBytes, SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

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


def describe(settings: BaseSettings) -> list[SettingRow]:
    """A row for each setting, in the order of the reference."""
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
    """The environment variable of a field."""
    return PREFIX + name.upper()


def unit(field: FieldInfo) -> str:
    """What a value is counted in, or what it is."""
    return _extra(field, "unit")


def example(field: FieldInfo) -> str:
    """How a value may be written: the default, or what stands beside it."""
    return plain(field.default) or _extra(field, "example")


def _extra(field: FieldInfo, name: str) -> str:
    extra = field.json_schema_extra
    return str(extra.get(name, "")) if isinstance(extra, dict) else ""


def is_secret(field: FieldInfo) -> bool:
    """Whether a value must never be shown."""
    annotation = field.annotation
    return any(kind in (SecretStr, SecretBytes) for kind in (annotation, *get_args(annotation)))


def plain(value: Any) -> str:
    """A value as one writes it in the environment; a secret that is set becomes stars, and so does who is named in a
    URL before `@`."""
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
    """A value that is no good, as messages show it. Whatever is before an `@` may be a password."""
    if not isinstance(value, str):
        return repr(value)
    scheme, apart, rest = value.rpartition("://")
    _, at, host = rest.rpartition("@")
    return repr(f"{scheme}{apart}{MASK}@{host}" if at else value)


def allowed(field: FieldInfo) -> str:
    """What may be written, as a phrase: `a whole number from 1 to 65535 (port)`."""
    if get_origin(field.annotation) is Literal:
        return "one of " + ", ".join(get_args(field.annotation))
    counted = f" ({unit(field)})" if unit(field) else ""
    if field.annotation is bool:
        return "true or false"
    if field.annotation in (int, float):
        kind = "a whole number" if field.annotation is int else "a number"
        return kind + "".join(_bounds(field)) + counted
    kind = unit(field)
    if ":" in kind:  # it shows how it is written
        return kind
    return f"{'an' if kind.startswith('I') else 'a'} {kind}"


def _bounds(field: FieldInfo) -> Iterator[str]:
    for limit in field.metadata:
        if isinstance(limit, annotated_types.Ge):
            yield f" from {plain(limit.ge)}"
        if isinstance(limit, annotated_types.Le):
            yield f" to {plain(limit.le)}"
