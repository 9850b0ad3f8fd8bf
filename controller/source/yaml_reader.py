"""Reads YAML and JSON text to plain values with their line numbers. Problems have a line and a hint.

Values follow YAML 1.2: only `true` and `false` are booleans (`y`, `no`, `on` are text), and dates are text. Keys must
be text and may not repeat. Does not support tags, merge keys, or text that cannot be encoded as UTF-8. The size and the
number of values are limited, even after aliases are expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from knative.resources.object_reader import Path
from knative.urls import quoted

FILE_BYTES_MAX = 1024 * 1024
NODES_MAX = 50_000  #: per file; counted as they are written, and again with aliases expanded
ANCHORS_MAX = 1_000  #: per file; resources need none, and each costs time before the file can be checked
DEPTH_MAX = 64

_TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})", re.ASCII)
_ZERO_FIRST = re.compile(r"[-+]?0[0-9]+", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)


class BadDocument(ValueError):
    """Text that cannot be read. `line` counts from 1."""

    def __init__(self, line: int, path: Path, what: str, hint: str) -> None:
        super().__init__(f"line {line}: {what}; {hint}")
        self.line, self.path, self.what, self.hint = line, path, what, hint


@dataclass(slots=True)
class Document:
    """One object of a file: its plain value, and on which line each field is."""

    value: Mapping[str, object]
    line: int
    lines: dict[Path, int] = field(default_factory=dict)

    def line_of(self, path: Path) -> int:
        """Returns the line of a field, or of the nearest thing around it that is there."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, self.line)


class _Loader(yaml.SafeLoader):
    """Only its parser and composer are used; nothing is resolved or constructed by it."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - the base class's shape

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = 0
        self._anchors = 0

    def flatten_mapping(self, node: MappingNode) -> None:
        """Merge keys are not applied."""

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        """Count values and anchors while composing, because reading the rest of a rejected file could take seconds."""
        is_key = isinstance(parent, MappingNode) and index is None
        self._values += not is_key
        if self._values > NODES_MAX:
            raise _too_many_values(self.line + 1, ())
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if event.anchor is not None and not isinstance(event, yaml.AliasEvent):
            self._anchors += 1
            if self._anchors > ANCHORS_MAX:
                what = f"the file has over {ANCHORS_MAX} anchors (&name)"
                raise BadDocument(event.start_mark.line + 1, (), what, "write the values out, or split the file")
        return super().compose_node(parent, index)


def read_documents(data: bytes, *, is_json: bool = False) -> list[Document]:
    """Returns every object of a file; empty documents are skipped, a `kind: List` is opened. Raises BadDocument."""
    if len(data) > FILE_BYTES_MAX:
        raise BadDocument(
            1, (), f"the file has {len(data)} bytes", f"split it into files of at most {FILE_BYTES_MAX} bytes"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BadDocument(line, (), "the file is not UTF-8", "save the file as UTF-8") from error
    if is_json:
        text = text.replace("\t", " ")  # JSON may be indented with tabs, YAML may not; a JSON text holds no raw tab
    return _documents(_nodes(text))


def _nodes(text: str) -> list[Node]:
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        nodes = []
        while loader.check_node():
            nodes.append(loader.get_node())
        return [node for node in nodes if node is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(part for part in (error.context, error.problem) if part)
        hint = "indent with spaces, not with tabs" if "'\\t'" in what else "fix the YAML at this line or just before it"
        raise BadDocument((mark.line + 1) if mark else 1, (), what, hint) from error
    except yaml.YAMLError as error:
        line = _line_of_reader_error(error, text)
        raise BadDocument(line, (), "the file contains characters that YAML does not allow", "remove them") from error
    except BadDocument:
        raise
    except (ValueError, OverflowError) as error:
        line = loader.line + 1 if loader else 1  # the parser turns \U... into a character without looking
        raise BadDocument(line, (), "an escape (\\U...) is not a character", "write the character itself") from error
    except RecursionError as error:
        raise BadDocument(1, (), "the file is nested too deeply", f"use at most {DEPTH_MAX} levels") from error


def _line_of_reader_error(error: yaml.YAMLError, text: str) -> int:
    position = getattr(error, "position", None)
    return text.count("\n", 0, position) + 1 if isinstance(position, int) else 1


def _too_many_values(line: int, path: Path) -> BadDocument:
    return BadDocument(line, path, f"the file has over {NODES_MAX} values, aliases expanded", "split it")


def _documents(nodes: list[Node]) -> list[Document]:
    documents: list[Document] = []
    budget = iter(range(NODES_MAX))
    for node in nodes:
        lines: dict[Path, int] = {}
        value = _value(node, (), lines, budget)
        line = node.start_mark.line + 1
        if value is None:
            continue
        if not isinstance(value, dict):
            raise BadDocument(
                line, (), "this document is not a mapping", "write apiVersion:, kind:, metadata: and spec:"
            )
        items = value.get("items")
        if value.get("kind") == "List" and isinstance(items, list):
            documents.extend(_items(items, line, lines))
        else:
            documents.append(Document(value, line, lines))
    return documents


def _items(items: list[object], line: int, lines: dict[Path, int]) -> Iterator[Document]:
    for index, item in enumerate(items):
        prefix: Path = ("items", index)
        start = lines.get(prefix, line)
        if not isinstance(item, dict):
            raise BadDocument(
                start, prefix, "this item is not a mapping", "write apiVersion:, kind:, metadata: and spec:"
            )
        yield Document(item, start, {path[2:]: at for path, at in lines.items() if path[:2] == prefix})


def _value(node: Node, path: Path, lines: dict[Path, int], budget: Iterator[int]) -> object:
    line = node.start_mark.line + 1
    lines.setdefault(path, line)
    if next(budget, None) is None:
        raise _too_many_values(line, path)
    if len(path) > DEPTH_MAX:  # an alias to what is around it ends here as well
        raise BadDocument(line, path, "this value is nested too deeply", f"use at most {DEPTH_MAX} levels")
    if isinstance(node, MappingNode):
        _check_tag(node, "map", line, path)
        return _mapping(node, path, lines, budget)
    if isinstance(node, SequenceNode):
        _check_tag(node, "seq", line, path)
        return [_value(item, (*path, index), lines, budget) for index, item in enumerate(node.value)]
    assert isinstance(node, ScalarNode), "YAML has no fourth kind of node"
    return _scalar(node, line, path)


def _mapping(node: MappingNode, path: Path, lines: dict[Path, int], budget: Iterator[int]) -> dict[str, object]:
    result: dict[str, object] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = _scalar(key_node, line, path) if isinstance(key_node, ScalarNode) else None
        if not isinstance(key, str):
            raise BadDocument(
                line, path, "this key is not text", 'write a name, in quotes ("...") if it looks like a number'
            )
        if key == "<<" and key_node.style is None:
            raise BadDocument(line, path, "merge keys (<<) are not supported", "write the fields out")
        if key in result:
            raise BadDocument(line, (*path, key), f"the key {quoted(key)} appears twice", "remove one of the two")
        lines[(*path, key)] = line
        result[key] = _value(value_node, (*path, key), lines, budget)
    return result


def _check_tag(node: Node, expected: str, line: int, path: Path) -> None:
    if node.tag != _TAG + expected:
        raise BadDocument(line, path, f"tag {quoted(node.tag)} is not supported", "remove it")


def _scalar(node: ScalarNode, line: int, path: Path) -> object:
    """Returns the value by the core schema of YAML 1.2; what is quoted is text."""
    text = _whole(node.value, line, path)
    if node.tag != _TAG + "str":
        raise BadDocument(
            line, path, f"tag {quoted(node.tag)} is not supported", 'remove the tag; use quotes ("...") for a text'
        )
    if node.style is not None:
        return text
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE"):
        return True
    if text in ("false", "False", "FALSE"):
        return False
    if _INT.fullmatch(text):
        return int(text)
    if _ZERO_FIRST.fullmatch(text):
        what = f"{text[:64]} is a number that begins with 0, which some YAML readers take as octal"
        raise BadDocument(
            line, path, what, 'remove the leading zeros, or put the value in quotes ("...") if it is a text'
        )
    return float(text) if _NUMBER.fullmatch(text) else text


def _whole(text: str, line: int, path: Path) -> str:
    """Returns the text with each pair of escapes for one character (\\ud83d\\ude00, as JSON writes it) joined."""
    if not _SURROGATE.search(text):
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError as error:
        what = "half of a pair of escapes (\\ud800 to \\udfff) stands alone in a text"
        raise BadDocument(line, path, what, "write the character itself, or both halves") from error
