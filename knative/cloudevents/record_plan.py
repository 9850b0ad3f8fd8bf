"""Maps events that differ in a few attributes only, as those of one sender do. Pure.

The first event is mapped and checked as a whole (`http_binding`). What follows from the header lines that stay the same
is kept as a template, and for the next events only the values of the others are checked, by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from knative.cloudevents import http_binding
from knative.cloudevents.attributes import is_uri_reference
from knative.cloudevents.http_binding import Pairs, Record
from knative.timefmt import is_time

_CONTENT_TYPE = "content-type"
#: What must be true of a value besides being plain text and not empty.
_CHECKS: dict[str, Callable[[bytes], bool]] = {
    "ce_source": is_uri_reference,
    "ce_time": is_time,
    "ce_dataschema": is_uri_reference,
    "ce_schemaurl": is_uri_reference,
}


class RecordPlan:
    """The template of a record, and where the values that differ belong."""

    __slots__ = ("_headers", "_is_typed", "_key", "_key_at", "_slots", "_type_at")

    def __init__(self, names: Sequence[str], varying: Sequence[int], record: Record) -> None:
        """`names` of the record for each line of the request, `varying`: positions in it. `record`: of one event."""
        headers, self._key, _ = record
        places = {name: place for place, (name, _) in enumerate(headers)}
        at = {names[position]: at for at, position in enumerate(varying) if names[position]}
        self._headers = headers
        self._is_typed = _CONTENT_TYPE in places
        self._type_at = at.pop(_CONTENT_TYPE, -1)
        # The version decides which other attributes are URIs, also of those that stay the same.
        checks = {**_CHECKS, "ce_specversion": headers[places["ce_specversion"]][1].__eq__}
        self._slots = [(at[name], places[name], name, checks.get(name)) for name in at]
        self._key_at = at.get("ce_partitionkey" if "ce_partitionkey" in places else "ce_subject", -1)

    def record(self, values: Sequence[bytes], is_plain: bool, body: bytes | None) -> Record | None:
        """Returns the record of an event whose varying lines have these values; None if it must be mapped as a whole,
        to be decoded or to be rejected. `is_plain`: no value needs decoding."""
        headers = self._headers.copy()
        for at, place, name, is_valid in self._slots:
            value = values[at]
            if not value or (is_valid is not None and not is_valid(value)):
                return None
            if not is_plain and not http_binding.is_plain(value):
                return None
            headers[place] = (name, value)
        if self._type_at >= 0:
            content_type = values[self._type_at]
            if not http_binding.is_known_content_type(content_type):
                return None
            headers[-1] = (_CONTENT_TYPE, content_type)
        key = self._key if self._key_at < 0 else values[self._key_at]
        return headers, key, body if body or self._is_typed else None


def planned(pairs: Pairs, varying: Sequence[int], body: bytes | None) -> tuple[Record, RecordPlan | None]:
    """Returns the record of one event, and a plan for those that differ only in the lines at these positions. No plan:
    this event is not one to learn from. Raises BadEvent."""
    record = http_binding.to_record(pairs, body)
    if http_binding.is_structured(pairs):
        return record, None
    names = http_binding.record_names(pairs)
    stored = dict(record[0])
    is_plain = all(
        stored[name] == value and (name == _CONTENT_TYPE or http_binding.is_plain(value))
        for name, value in ((names[at], pairs[at][1]) for at in varying if names[at] in stored)
    )
    return record, RecordPlan(names, varying, record) if is_plain else None
