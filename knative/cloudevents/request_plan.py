"""Makes requests of records that differ in a few values, as those of one sender do. Pure.

The first record is mapped and checked as a whole (`kafka_binding`). A plan is what that makes of it with placeholders
for the values that differ. Of the next records with these names, those values are checked, and the others compared.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from operator import itemgetter

from knative.cloudevents.attributes import SPEC_VERSIONS
from knative.cloudevents.http_binding import RAW_URIS, is_plain, names_cloudevents
from knative.cloudevents.kafka_binding import encoded, from_structured, is_structured, to_json_request, to_request
from knative.memo import ENTRY_BYTES_MAX, remember_shape
from knative.ports import Headers

_mark = secrets.token_hex(16).encode()  # is in no record
_marks = re.compile(_mark + rb"(\d+);").split
_LENGTH = b"\r\ncontent-length: %d\r\n\r\n"
_VERSION = b"\r\nce-specversion: "


class RequestPlan:
    """The template of a request, and where the values that differ come from. It grows with what turns out to differ."""

    __slots__ = ("_checks", "_fixed", "_fixed_of", "_headers", "_slots", "_template", "_unsent", "_varying")

    def __init__(self, headers: Headers) -> None:
        """Begin with one record, which alone is no plan for others."""
        self._headers = headers
        self._varying: set[int] = set()
        self._fixed_of: Callable[[Headers], object] = len
        self._fixed: object = None

    def grow(self, headers: Headers) -> None:
        """Learn from another record with the same names, which can be sent in binary mode."""
        varying = self._varying.union(at for at, header in enumerate(headers) if header != self._headers[at])
        names = [name.lower() for name, _ in headers]
        if any(names[at] == RAW_URIS for at in varying):  # it decides how other values are sent
            return
        fixed = [at for at in range(len(headers)) if at not in varying]
        version_at = names.index("ce_specversion")  # a mark is not a version
        marked = [
            (name, b"%b%d;" % (_mark, at) if at in varying and at != version_at else text)
            for at, (name, text) in enumerate(headers)
        ]
        head = to_request(b"", marked, None).removesuffix(_LENGTH % 0)
        if version_at in varying:
            version = headers[version_at][1] or b""
            head = head.replace(_VERSION + version, b"%b%b%d;" % (_VERSION, _mark, version_at))
        pieces = _marks(head)
        sent = [int(at) for at in pieces[1::2]]
        checks = {"ce_specversion": SPEC_VERSIONS.__contains__, "content-type": _is_binary}
        self._varying = varying
        self._fixed_of = itemgetter(*fixed) if fixed else len
        self._fixed = self._fixed_of(headers)
        self._slots = [(at, headers[at][0]) for at in sent]
        self._unsent = [(at, headers[at][0]) for at in varying.difference(sent)]
        self._checks = [(place, checks[names[at]]) for place, at in enumerate(sent) if names[at] in checks]
        self._template = b"%b".join(piece.replace(b"%", b"%%") for piece in pieces[::2]) + _LENGTH

    def request(self, prefix: bytes, headers: Headers, value: bytes | None) -> bytes | None:
        """Returns the request; None if the record is not one of this plan. Raises Unreadable."""
        if self._fixed_of(headers) != self._fixed:
            return None
        values: list[bytes] = []
        for at, expected in self._slots:
            name, text = headers[at]
            if name != expected:
                return None
            values.append(text)  # type: ignore[arg-type]  # a null is caught below
        for at, expected in self._unsent:
            if headers[at][0] != expected:
                return None
        if not all(values):  # an empty or a null one
            return to_request(prefix, headers, value)
        for place, is_valid in self._checks:
            if not is_valid(values[place]):
                return to_request(prefix, headers, value)
        if not is_plain(b"".join(values)):
            for place, (_, name) in enumerate(self._slots):
                if not is_plain(values[place]):
                    if name[:3].lower() != "ce_":
                        return to_request(prefix, headers, value)
                    values[place] = encoded(name[3:].lower(), values[place], headers)
        if value is None:
            value = b""
        return b"".join((prefix, self._template % (*values, len(value)), value))


def _is_binary(content_type: bytes) -> bool:
    return not names_cloudevents(content_type)


#: By the names of the headers.
_plans: dict[tuple[str, ...], RequestPlan] = {}
#: The one that was used last, by the number of headers: usually that of the next record too.
_latest: dict[int, RequestPlan] = {}


def planned_request(prefix: bytes, headers: Headers, value: bytes | None) -> bytes:
    """Returns what `kafka_binding.to_request` returns, sooner for a record like former ones. Raises Unreadable."""
    plan = _latest.get(len(headers))
    request = None if plan is None else plan.request(prefix, headers, value)
    return _learned(prefix, headers, value) if request is None else request


def planned_json_request(prefix: bytes, headers: Headers, value: bytes | None) -> bytes:
    """The same for `kafka_binding.to_json_request`: the record is checked by a plan."""
    return to_json_request(prefix, headers, value, planned_request)


def _learned(prefix: bytes, headers: Headers, value: bytes | None) -> bytes:
    names = tuple([name for name, _ in headers])
    plan = _plans.get(names)
    if plan is not None:
        _latest[len(names)] = plan
        request = plan.request(prefix, headers, value)
        if request is not None:
            return request
    if is_structured(headers):
        return planned_request(prefix, *from_structured(headers, value))
    request = to_request(prefix, headers, value)
    # Nothing is kept of large records.
    if sum(len(text or b"") for _, text in headers) <= 4 * ENTRY_BYTES_MAX:
        if plan is None:
            remember_shape(_plans, names, RequestPlan(headers))
        else:
            plan.grow(headers)
    return request
