"""Shapes of kinds as data: the one definition behind the checks of a directory, the CRDs and the reference page.

    shape -> fields_reader    a mapping -> values with defaults, and every problem with its field
          -> openapi          structural schema with CEL rules, for the API server

A pattern is in the syntax that Python and RE2 share, because both evaluate it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from knative.resources.object_reader import INTEGER_MAX, TEXT_CHARS_MAX

#: Why a value is not taken, and what to do: (what, hint).
Complaint = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One field. `meaning` is for people: a phrase or some sentences in Markdown."""

    meaning: str = ""
    required: bool = False
    immutable: bool = False  #: the API server rejects a change; a directory has a condition for that
    layered: bool = False  #: read as None if absent: the value of another object comes before the default


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Node):
    """A text; an empty one counts as absent."""

    default: str = ""
    pattern: str = ""  #: of the whole text, without ^ and $
    characters_max: int = TEXT_CHARS_MAX
    what: str = "is not valid"  #: what a text that does not match `pattern` is: "is not a valid uid"
    hint: str = ""
    #: Says what is wrong. Directories only; rejects all that `pattern` rejects, and perhaps more.
    check: Callable[[str], Complaint | None] | None = None
    stored: bool = False  #: the API server writes the default into the object


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Node):
    """One of some texts; an empty one counts as absent."""

    choices: tuple[str, ...]
    default: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer(Node):
    """A whole number."""

    default: int
    least: int
    most: int = INTEGER_MAX
    hint: str = ""  #: for a number above `most`
    stored: bool = False
    wide: bool = False  #: of 64 bits, such as an offset; `most` does not count
    rises_only: bool = False  #: the API server rejects a lower number than before


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration(Node):
    """An ISO-8601 duration; read as seconds, None if absent and without a default."""

    default: str = ""
    positive: bool = False  #: at least a millisecond
    stored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts(Node):
    """A mapping of names to texts."""

    least: int = 0
    most: int = 0  #: 0 = any number
    names: Rule | None = None  #: about the names, if the API server can check them
    empty_allowed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Anything(Node):
    """A field that is allowed and not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported(Node):
    """A field of Knative that would be ignored, which its author would not expect: it is rejected."""

    what: str
    hint: str
    type: str = "string"  #: in Knative's schema


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule about several fields of an Object, said twice: `cel` for the API server, `holds` for directories.

    `holds` gets the values that were read. A rule without it is checked by code of its own kind.
    """

    field: str  #: that the problem is about; "" = the object
    cel: str
    what: str
    hint: str
    holds: Callable[[Mapping[str, Any]], bool] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Object(Node):
    """A mapping with known fields."""

    fields: Mapping[str, Node]
    rules: tuple[Rule, ...] = ()
    recursive: tuple[str, ...] = ()  #: fields that hold such an object, or a list of them
    by_hand: bool = False  #: has code of its own that reads it
    hint: str = ""
    title: str = ""  #: a heading of the reference page that describes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Items(Node):
    """A list of objects. If it has a `key`, no two items have the same text there."""

    of: Object
    most: int
    key: str = ""
    by_hand: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False  #: only with `-o wide`


AGE = Column(name="Age", path=".metadata.creationTimestamp", type="date")
READY = Column(name="Ready", path='.status.conditions[?(@.type=="Ready")].status')
REASON = Column(name="Reason", path='.status.conditions[?(@.type=="Ready")].reason')


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind that the API server stores for us."""

    group: str
    versions: tuple[str, ...]  #: the preferred one first
    name: str
    meaning: str
    spec: Object
    annotations: Object
    status: Mapping[str, Node] = field(default_factory=dict)
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[Column, ...] = (READY, REASON, AGE)
    #: (annotation, value) that makes an object ours; None = all are.
    ours: tuple[str, str] | None = None

    @property
    def plural(self) -> str:
        """The name in URLs and in the CRD."""
        return f"{self.name.lower()}s"

    @property
    def api_version(self) -> str:
        """The preferred one."""
        return f"{self.group}/{self.versions[0]}"
