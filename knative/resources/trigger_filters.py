"""`filter` and `filters` of a Trigger: their shapes, their values, and every mistake with its field."""

from __future__ import annotations

import re

from knative import cesql
from knative.filters.dialects import ALL_EVENTS, LISTS, PAIRS, All, Attributes, Cesql, Filter, Not, Pairs
from knative.resources.object_reader import ObjectReader
from knative.resources.schema import Items, Object, Rule, Text, Texts

#: Limits of all filters of one Trigger together. They are evaluated for every event.
DEPTH_MAX = 16
PARTS_MAX = 500
CHARACTERS_MAX = 65_536
#: Operators, functions and operands of CESQL: evaluating this many takes 2 ms, and parsing them 0.2 s.
OPERANDS_MAX = 10_000

#: As Knative's webhook checks it. CloudEvents allows a digit at the beginning too, and so does CESQL.
_NAME = re.compile(r"[a-z][a-z0-9]*", re.ASCII)


def _texts(meaning: str) -> Texts:
    return Texts(meaning=meaning, least=1, most=PARTS_MAX, empty_allowed=False)


_NESTED = Object(fields={})
_ANY_FIELDS = {
    "exact": _texts("Passes if each of these attributes has exactly this text."),
    "prefix": _texts("Passes if each of these attributes begins with this text."),
    "suffix": _texts("Passes if each of these attributes ends with this text."),
    "all": Items(meaning="Passes if all of these filters pass.", of=_NESTED, most=PARTS_MAX),
    "any": Items(meaning="Passes if at least one of these filters passes.", of=_NESTED, most=PARTS_MAX),
    "not": Object(meaning="Passes if this filter does not.", fields={}),
    "cesql": Text(meaning="Passes if this CESQL expression is true.", required=False, characters_max=CHARACTERS_MAX),
}
_DIALECTS = tuple(_ANY_FIELDS)
_GIVEN = "[" + ", ".join(f"has(self.{name})" for name in _DIALECTS) + "]"

FILTER = Object(
    meaning="The older form of `filters`; ignored if there are `filters`.",
    by_hand=True,
    fields={
        "attributes": Texts(meaning="Passes if each of these attributes has this text; an empty text means any text.")
    },
)
FILTERS = Items(
    meaning="Filters. An event must pass all of them.",
    most=PARTS_MAX,
    by_hand=True,
    of=Object(
        fields=_ANY_FIELDS,
        recursive=("all", "any", "not"),
        rules=(
            Rule(
                "",
                f"{_GIVEN}.exists_one(given, given)",
                f"must have one dialect: {', '.join(_DIALECTS)}",
                "write each dialect as a separate element",
            ),
            Rule("cesql", "!has(self.cesql) || self.cesql != ''", "is missing", "write a CESQL expression"),
        ),
    ),
)


def read_filter(spec: ObjectReader) -> Filter:
    """Returns the filter of a Trigger's `spec`. `filters` wins over `filter`, unless it is empty; both are checked."""
    size = _Size(spec)
    legacy = ALL_EVENTS if (reader := spec.mapping("filter")) is None else _legacy(reader, size)
    filters = tuple(_filter(entry, 1, size) for entry in spec.mappings("filters"))
    if not filters:
        return legacy
    return filters[0] if len(filters) == 1 else All(filters)


class _Size:
    """Counts what the filters of one Trigger have, and reports once when it is too much."""

    def __init__(self, spec: ObjectReader) -> None:
        self._spec = spec
        self._parts = self._characters = self._operands = 0
        self._reported = False

    def add(self, parts: int, characters: int, operands: int = 0) -> None:
        self._parts += parts
        self._characters += characters
        self._operands += operands
        if self._parts > PARTS_MAX:
            self._report(f"{PARTS_MAX} conditions", "write several Triggers, or a CESQL expression")
        elif self._characters > CHARACTERS_MAX:
            self._report(f"{CHARACTERS_MAX} characters", "write several Triggers, or a CESQL expression")
        elif self._operands > OPERANDS_MAX:
            self._report(f"{OPERANDS_MAX} operators and operands of CESQL", "write several Triggers")

    def _report(self, what: str, hint: str) -> None:
        if not self._reported:
            self._reported = True
            self._spec.problem("filters", f"have more than {what} together", hint)


def _legacy(reader: ObjectReader, size: _Size) -> Filter:
    pairs = _pairs(reader, "attributes", size, empty_allowed=True)
    reader.finish()
    return Attributes(pairs) if pairs else ALL_EVENTS


def _filter(reader: ObjectReader, depth: int, size: _Size) -> Filter:
    """Returns one element of `filters`: exactly one dialect."""
    if depth > DEPTH_MAX:
        reader.problem("", f"is nested deeper than {DEPTH_MAX} levels", "write it flatter, or as a CESQL expression")
        return ALL_EVENTS
    size.add(1, 0)
    given = [name for name in _DIALECTS if reader.read(name) is not None]
    before = len(reader.problems)
    reader.finish()
    if not given and len(reader.problems) > before:
        return ALL_EVENTS
    if not given:
        reader.problem("", "has no dialect", f"write one of {', '.join(_DIALECTS)}")
        return ALL_EVENTS
    if len(given) > 1:
        reader.problem("", f"has {len(given)} dialects: {', '.join(given)}", "write each dialect as a separate element")
        return ALL_EVENTS
    match given[0]:
        case "not":
            inner = reader.mapping("not")
            return ALL_EVENTS if inner is None else Not(_filter(inner, depth + 1, size))
        case "cesql":
            return _cesql(reader, size)
        case name if name in LISTS:
            return LISTS[name](tuple(_filter(mapping, depth + 1, size) for mapping in reader.mappings(name)))
        case name:
            return PAIRS[name](_some_pairs(reader, name, size))


def _pairs(reader: ObjectReader, dialect: str, size: _Size, *, empty_allowed: bool = False) -> Pairs:
    texts = reader.texts(dialect)
    reported = {problem.path for problem in reader.problems}
    for name, text in texts.items():
        size.add(1, len(name) + len(text))
        if not _NAME.fullmatch(name):
            what = "has an empty attribute name" if not name else f"{name[:64]!r} is not a valid attribute name"
            cesql_can = "; in a CESQL expression it may begin with a digit" if name[:1].isdigit() else ""
            hint = f"begin with a lower-case letter, and use such letters and digits, as in `type`{cesql_can}"
            reader.problem(dialect, what, hint)
        elif not text and not empty_allowed and (*reader.path, dialect, name) not in reported:
            reader.problem(dialect, f"has an empty value for {name!r}", "write the text that the attribute has")
    return tuple(texts.items())


def _some_pairs(reader: ObjectReader, dialect: str, size: _Size) -> Pairs:
    before = len(reader.problems)
    pairs = _pairs(reader, dialect, size)
    if not pairs and len(reader.problems) == before:
        reader.problem(dialect, "is empty", "write at least one `attribute: text`, or remove the filter")
    return pairs


def _cesql(reader: ObjectReader, size: _Size) -> Filter:
    text = reader.text("cesql", required=True)
    size.add(0, len(text))
    if text:
        try:
            size.add(0, 0, cesql.compile(text).size)
        except cesql.CesqlSyntaxError as problem:
            reader.problem("cesql", f"is not a valid expression: {problem}", "see the filter reference for the syntax")
    return Cesql(text)
