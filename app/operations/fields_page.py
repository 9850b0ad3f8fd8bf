"""The page docs/reference/fields.md: every field of every kind, from their definition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from knative.resources.schema import Choice, Duration, Integer, Items, Kind, Node, Object, Text, Texts

_INTRODUCTION = """\
# Fields of the resources

<!-- Generated from knative/resources by `make docs`; edits here are lost. -->

Every field and annotation that Penstock reads. [Resources](resources.md) says what they mean together, and has the
conditions. A directory and the CRDs in `knative/manifests/crds/` come from the same definition, so both reject the same
objects; an API server rejects unknown fields if the client asks for it, as `kubectl` does. It cannot check some rules:

- that a CESQL expression is valid, and filters below the second level;
- that attribute names in filters begin with a letter and are lower-case letters and digits, and their limits together;
- annotations;
- that a reference stays in the namespace of its object;
- that a duration is at most 100 years, and that an IPv6 address in a URI is valid;
- the `config` of a Broker, which may be of another class.

An object in a cluster that breaks such a rule is not served, and its condition names the field.
"""
_SHARED = ("Delivery", "Destinations")


def page(kinds: Iterable[Kind]) -> str:
    """Returns the whole page."""
    lines: list[str] = []
    shared: dict[str, Object] = {}
    for kind in kinds:
        lines += _of_kind(kind, shared)
    for title in _SHARED:
        shape = shared[title]
        lines += ["", f"## {title}", "", *_table(shape, shared)]
    return _INTRODUCTION + "".join(f"{line}\n" for line in lines)


def _of_kind(kind: Kind, shared: dict[str, Object]) -> Iterator[str]:
    yield from ("", f"## {kind.name} ({kind.group}/{', '.join(kind.versions)})", "", kind.meaning, "")
    if kind.short_names:
        short = " or ".join(f"`{name}`" for name in kind.short_names)
        yield from (f"`kubectl get {kind.plural}`, or {short}.", "")
    yield from _table(kind.spec, shared, "spec.")
    if kind.annotations.fields:
        yield ""
        yield from _rows("Annotation", kind.annotations, shared, "")
    yield ""
    yield from _rows("Status", Object(fields=kind.status), shared, "status.")


def _table(shape: Object, shared: dict[str, Object], prefix: str = "") -> Iterator[str]:
    return _rows("Field", shape, shared, prefix)


def _rows(heading: str, shape: Object, shared: dict[str, Object], prefix: str) -> Iterator[str]:
    yield from (f"| {heading} | Type | Default | Meaning |", "|---|---|---|---|")
    yield from _fields(shape, shared, prefix)


def _fields(shape: Object, shared: dict[str, Object], prefix: str) -> Iterator[str]:
    for key, node in shape.fields.items():
        name = f"{prefix}{key}"
        meaning = node.meaning
        if isinstance(node, Object) and node.title:
            shared.setdefault(node.title, node)
            meaning = f"{meaning} See [{node.title}](#{node.title.lower()})."
        if node.immutable:
            meaning += " Cannot be changed."
        yield f"| `{name}` | {_type(node)} | {_default(node)} | {meaning} |"
        if isinstance(node, Object) and not node.title and key not in shape.recursive:
            yield from _fields(node, shared, f"{name}.")
        if isinstance(node, Items) and key not in shape.recursive:
            yield from _fields(node.of, shared, f"{name}[].")


def _type(node: Node) -> str:
    match node:
        case Choice():
            return " or ".join(f"`{choice}`" for choice in node.choices)
        case Integer():
            return f"number from {node.least}" + ("" if node.wide else f" to {node.most}")
        case Duration():
            return "duration, at least `PT0.001S`" if node.positive else "duration"
        case Text():
            return "text"
        case Texts():
            return "names and texts"
        case Items():
            return f"list, at most {node.most}"
        case Object():
            return "object"
    return "any"


def _default(node: Node) -> str:
    if node.required:
        return "required"
    default = getattr(node, "default", "")
    return f"`{default}`" if default != "" else ""
