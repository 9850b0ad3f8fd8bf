"""Events by way of a plan, as ingress maps those of a sender that repeats itself."""

from __future__ import annotations

from collections.abc import Sequence

from knative.cloudevents.http_binding import Record, is_plain, to_record
from knative.cloudevents.record_plan import planned

Pairs = Sequence[tuple[bytes, bytes]]


def record_like(former: Pairs, values: Sequence[bytes], varying: Sequence[int], body: bytes | None) -> Record:
    """The record of a request with these values at `varying`, that comes after a request with the `former` lines."""
    pairs = list(former)
    for at, value in zip(varying, values, strict=True):
        pairs[at] = (pairs[at][0], value)
    _, plan = planned(former, varying, body)
    stripped = [value.strip(b" ") for value in values]
    if plan is not None and not b"".join(stripped).translate(
        None, bytes(range(0x20, 0x7F))
    ):  # others match no head plan
        record = plan.record(stripped, all(map(is_plain, stripped)), body)
        if record is not None:
            return record
    return to_record(pairs, body)


def record_of_lines(pairs: Pairs, body: bytes | None) -> Record:
    """The record of a request that comes after the same one."""
    return record_like(pairs, [value for _, value in pairs], range(len(pairs)), body)
