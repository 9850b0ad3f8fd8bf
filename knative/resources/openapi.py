"""Structural schemas of the API server, with CEL rules, from the shapes of `schema`.

Such a schema cannot hold itself: objects within objects of the same shape are checked to two levels, and anything
passes below.
"""

from __future__ import annotations

from typing import Any

from knative.delivery.policy import DURATION_CHARS_MAX, DURATION_PATTERN, POSITIVE_PATTERN
from knative.resources.schema import (
    Anything,
    Choice,
    Duration,
    Integer,
    Items,
    Kind,
    Node,
    Object,
    Rule,
    Text,
    Texts,
    Unsupported,
)

_FREE = "x-kubernetes-preserve-unknown-fields"
_RULES = "x-kubernetes-validations"
Schema = dict[str, Any]


def kind_schema(kind: Kind) -> Schema:
    """Returns the schema of a whole object."""
    spec = node_schema(kind.spec)
    if not kind.spec.required:
        spec["default"] = {}
    status: Schema = {
        "description": "What the controller observed last.",
        "type": "object",
        "properties": {key: node_schema(node) for key, node in kind.status.items()},
        _FREE: True,
    }
    schema: Schema = {
        "description": kind.meaning,
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }
    return {**schema, "required": ["spec"]} if kind.spec.required else schema


def node_schema(node: Node, depth: int = 2) -> Schema:
    """Returns the schema of one field. `depth`: how many levels of objects within objects of the same shape it has."""
    schema: Schema = {"description": node.meaning} if node.meaning else {}
    schema.update(_body(node, depth))
    rules = [*schema.pop(_RULES, ()), *_transition(node)]
    return {**schema, _RULES: rules} if rules else schema


def _body(node: Node, depth: int) -> Schema:
    match node:
        case Text():
            return _text(node)
        case Choice():
            return {"type": "string", "enum": ["", *map(str, node.choices)]}
        case Integer():
            limits: Schema = {"type": "integer", "format": "int32", "minimum": node.least, "maximum": node.most}
            if node.wide:
                return {"type": "integer", "format": "int64", "minimum": node.least}
            return {**limits, "default": node.default} if node.stored else limits
        case Duration():
            return _duration(node)
        case Texts():
            return _texts(node)
        case Object():
            return _object(node, depth)
        case Items():
            return _items(node, depth)
        case Unsupported():
            rule = {"rule": "false", "message": f"{node.what}; {node.hint}"}
            return {"type": node.type, **({_FREE: True} if node.type == "object" else {}), _RULES: [rule]}
        case Anything():
            return {_FREE: True}
    raise AssertionError(f"{type(node).__name__} has no schema")


def _text(node: Text) -> Schema:
    schema: Schema = {"type": "string", "maxLength": node.characters_max}
    if node.required:
        schema["minLength"] = 1
    if node.pattern:
        schema["pattern"] = f"^({node.pattern})$" if node.required else f"^({node.pattern})?$"
    return {**schema, "default": str(node.default)} if node.stored else schema


def _duration(node: Duration) -> Schema:
    schema: Schema = {"type": "string", "maxLength": DURATION_CHARS_MAX, "pattern": f"^({DURATION_PATTERN})?$"}
    if node.positive:
        rule = f"self == '' || self.matches('{POSITIVE_PATTERN}')"
        schema[_RULES] = [{"rule": rule, "message": "is too short; write a duration of at least PT0.001S"}]
    return {**schema, "default": str(node.default)} if node.stored else schema


def _texts(node: Texts) -> Schema:
    value: Schema = {"type": "string"} if node.empty_allowed else {"type": "string", "minLength": 1}
    schema: Schema = {"type": "object", "additionalProperties": value}
    if node.least:
        schema["minProperties"] = node.least
    if node.most:
        schema["maxProperties"] = node.most
    return {**schema, _RULES: [_rule(node.names)]} if node.names is not None else schema


def _object(node: Object, depth: int) -> Schema:
    properties = {}
    for key, inner in node.fields.items():
        if key not in node.recursive:
            properties[key] = node_schema(inner, depth)
        elif depth > 1:
            properties[key] = node_schema(_again(inner, node), depth - 1)
        else:
            properties[key] = _below(inner)
    schema: Schema = {"type": "object", "properties": properties}
    required = [key for key, inner in node.fields.items() if inner.required]
    if required:
        schema["required"] = required
    rules = [_rule(rule) for rule in node.rules]
    for key, inner in node.fields.items():
        if inner.immutable and not inner.required:  # a rule of the field does not see that it comes or goes
            rules.append({**_immutable(key), "rule": f"has(self.{key}) == has(oldSelf.{key})"})
    return {**schema, _RULES: rules} if rules else schema


def _again(inner: Node, node: Object) -> Node:
    """Returns a recursive field with the shape of the object that holds it."""
    if isinstance(inner, Items):
        return Items(meaning=inner.meaning, of=node, most=inner.most)
    return Object(meaning=inner.meaning, fields=node.fields, rules=node.rules, recursive=node.recursive)


def _below(inner: Node) -> Schema:
    anything: Schema = {"type": "object", _FREE: True}
    if isinstance(inner, Items):
        return {"description": inner.meaning, "type": "array", "maxItems": inner.most, "items": anything}
    return {"description": inner.meaning, **anything}


def _items(node: Items, depth: int) -> Schema:
    schema: Schema = {"type": "array", "maxItems": node.most, "items": node_schema(node.of, depth)}
    if node.key:
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [node.key]}
    else:
        schema["x-kubernetes-list-type"] = "atomic"
    return schema


def _rule(rule: Rule) -> Schema:
    schema: Schema = {"rule": rule.cel, "message": f"{rule.what}; {rule.hint}"}
    return {**schema, "fieldPath": f".{rule.field}"} if rule.field else schema


def _transition(node: Node) -> list[Schema]:
    rules = []
    if node.immutable:
        rules.append({"rule": "self == oldSelf", "message": "cannot be changed; create another object instead"})
    if isinstance(node, Integer) and node.rises_only:
        rules.append({"rule": "self >= oldSelf", "message": "cannot be lowered; Kafka can only add partitions"})
    return rules


def _immutable(key: str) -> Schema:
    return {
        "message": f"{key} cannot be added or removed; create another object instead",
        "fieldPath": f".{key}",
    }
