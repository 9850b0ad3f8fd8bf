"""Maps events that differ in a few attributes only, as those of one sender do. Pure.

The first event is mapped and checked as a whole (`http_binding`). What follows from the header lines that stay the same
is kept as a template, and for the next events only the values of the others are checked, by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from knative.cloudevents import http_binding
from knative.cloudevents.attributes import fault_of_text, is_uri_reference
from knative.cloudevents.http_binding import Pairs, Record
from knative.timefmt import is_time

_CONTENT_TYPE, _VERSION = "content-type", "ce_specversion"
#: What must be true of a value besides being text and not empty.
_CHECKS: dict[str, Callable[[bytes], bool]] = {
    "ce_source": is_uri_reference,
    "ce_time": is_time,
    "ce_dataschema": is_uri_reference,
    "ce_schemaurl": is_uri_reference,
}


class RecordPlan:
    """The template of a record, and where the values that differ belong."""

    __slots__ = ("_headers", "_is_typed", "_key_place", "_slots", "_type_at", "_version", "_version_at")

    def __init__(self, names: Sequence[str], pairs: Pairs, varying: Sequence[int]) -> None:
        """`pairs` of a binary event, `names` of the record for each of them, `varying`: positions in both."""
        # A URI that is raw is named in another header of the record, so it must not come from a value that differs.
        is_uri = [at in varying and _CHECKS.get(name) is is_uri_reference for at, name in enumerate(names)]
        template = [(name, b"/" if uri else value) for (name, value), uri in zip(pairs, is_uri, strict=True)]
        self._headers, _, _ = http_binding.to_record(template, None)
        places = {name: place for place, (name, _) in enumerate(self._headers)}
        at = {names[position]: at for at, position in enumerate(varying) if names[position]}
        self._is_typed = _CONTENT_TYPE in places
        self._type_at = at.pop(_CONTENT_TYPE, -1)
        # The version decides which other attributes are URIs, also of those that stay the same.
        self._version_at = at.pop(_VERSION, -1)
        self._version = pairs[names.index(_VERSION)][1]
        self._slots = [(at[name], places[name], name, _CHECKS.get(name)) for name in at]
        self._key_place = places.get("ce_partitionkey", places.get("ce_subject", -1))

    def record(self, values: Sequence[bytes], is_plain: bool, body: bytes | None) -> Record | None:
        """Returns the record of an event whose varying lines have these values; None if it must be mapped as a whole,
        perhaps to be rejected. `is_plain`: no value needs decoding."""
        if self._version_at >= 0 and values[self._version_at] != self._version:
            return None
        headers = self._headers.copy()
        for at, place, name, is_valid in self._slots:
            value = values[at]
            if not (is_plain or http_binding.is_plain(value)):
                if is_valid is is_uri_reference:  # it may be raw
                    return None
                value = http_binding.decoded(name, value)
                if fault_of_text(value):
                    return None
            if not value or (is_valid is not None and not is_valid(value)):
                return None
            headers[place] = (name, value)
        if self._type_at >= 0:
            content_type = values[self._type_at]
            if not http_binding.is_known_content_type(content_type):
                return None
            headers[-1] = (_CONTENT_TYPE, content_type)
        key = headers[self._key_place][1] if self._key_place >= 0 else None
        return headers, key, body if body or self._is_typed else None


def planned(
    pairs: Pairs, varying: Sequence[int], body: bytes | None
) -> tuple[Record, RecordPlan | Literal[False] | None]:
    """Returns the record of one event, and a plan for those that differ only in the lines at these positions. None:
    this event is not one to learn from; False: no such event is. Raises BadEvent."""
    record = http_binding.to_record(pairs, body)
    names = http_binding.record_names(pairs)
    if http_binding.is_structured(pairs):
        return record, None if _CONTENT_TYPE in [names[at] for at in varying] else False
    # What is repeated is stored together.
    if any(names[at] and names.count(names[at]) > 1 for at in varying):
        return record, False
    return record, RecordPlan(names, pairs, varying)
