"""Reads a mapping by its shape: values with defaults, and every problem with its field.

Values are plain: text, int, seconds, dict, list. A field that is wrong is reported and has its default.
"""

from __future__ import annotations

import re
from typing import Any

from knative.resources.object_reader import ObjectReader
from knative.resources.schema import (
    Anything,
    Choice,
    Duration,
    Integer,
    Items,
    Node,
    Object,
    Text,
    Texts,
    Unsupported,
)
from knative.urls import quoted


def read_fields(reader: ObjectReader, shape: Object, only: str = "") -> dict[str, Any]:
    """Returns the values of all fields of `shape`. Fields that have code of their own are left to it, and None here.

    `only`: unknown fields are problems only if they have this prefix.
    """
    before = len(reader.problems)
    values = {key: _read(reader, key, node) for key, node in shape.fields.items()}
    reader.finish(only)
    if len(reader.problems) == before:  # else a rule might complain of what is absent because it is wrong
        for rule in shape.rules:
            if rule.holds is not None and not rule.holds(values):
                reader.problem(rule.field, rule.what, rule.hint)
    return values


def read_object(reader: ObjectReader, key: str, shape: Object) -> dict[str, Any] | None:
    """Returns the values of the mapping in field `key`; None if it is absent."""
    inner = reader.mapping(key, required=shape.required)
    return None if inner is None else read_fields(inner, shape)


def _read(reader: ObjectReader, key: str, node: Node) -> Any:
    match node:
        case Text():
            return _text(reader, key, node)
        case Choice():
            return reader.choice(key, ("", *node.choices), "") or (None if node.layered else node.default)
        case Integer():
            return _integer(reader, key, node)
        case Duration():
            return reader.duration_s(key, "" if node.layered else node.default, positive=node.positive)
        case Texts():
            return reader.texts(key)
        case Object() | Items() if node.by_hand:
            reader.read(key)
        case Object():
            return read_object(reader, key, node)
        case Items():
            return _items(reader, key, node)
        case Unsupported():
            if reader.read(key) is not None:
                reader.problem(key, node.what, node.hint)
        case Anything():
            reader.read(key)
    return None


def _text(reader: ObjectReader, key: str, node: Text) -> str:
    before = len(reader.problems)
    text = reader.text(key, node.default, required=node.required)
    if not text or text == node.default or len(reader.problems) > before:
        return text
    wrong = _complaint(text, node)
    if wrong is not None:
        reader.problem(key, *wrong)
        return node.default
    return text


def _complaint(text: str, node: Text) -> tuple[str, str] | None:
    wrong = node.check(text) if node.check is not None else None
    if wrong is not None:
        return wrong
    if len(text) > node.characters_max:
        return f"has {len(text)} characters", f"write at most {node.characters_max}"
    if node.pattern and not re.fullmatch(node.pattern, text, re.ASCII):
        return f"{quoted(text)} {node.what}", node.hint
    return None


def _integer(reader: ObjectReader, key: str, node: Integer) -> int | None:
    if node.layered and reader.read(key) is None:
        return None
    number = reader.integer(key, node.default, node.least)
    if number <= node.most:
        return number
    reader.problem(key, f"is {number}", node.hint or f"write at most {node.most}")
    return node.default


def _items(reader: ObjectReader, key: str, node: Items) -> list[dict[str, Any]]:
    entries = reader.mappings(key)
    if len(entries) > node.most:
        reader.problem(key, f"has {len(entries)} items", f"write at most {node.most}")
        return []
    items = [read_fields(entry, node.of) for entry in entries]
    keys = [fields[node.key] for fields in items if fields[node.key]] if node.key else []
    if len(keys) != len(set(keys)):
        reader.problem(key, f"two entries have the same {node.key}", f"give each entry its own {node.key}")
    return items
