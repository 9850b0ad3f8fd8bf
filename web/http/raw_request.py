"""A request as the reader passes it to the driver and to views that want no more."""

from __future__ import annotations

from collections.abc import Sequence

from web.http.head_plan import HeadPlan
from web.http.headers import Pairs


class RawRequest:
    """One complete request, as it was sent."""

    __slots__ = ("_pairs", "body", "head_bytes", "host", "is_plain", "keep", "method", "plan", "target", "values")

    def __init__(
        self,
        method: bytes,
        target: bytes,
        host: bytes | None,
        plan: HeadPlan | None,
        values: Sequence[bytes],
        is_plain: bool,
        pairs: Pairs,
        body: bytes | None,
        head_bytes: int,
        keep: bool,
    ) -> None:
        self.method = method
        self.target = target
        self.host = host
        self.plan = plan  #: that its head matches; None: `pairs` has the header lines
        self.values = values  #: of the lines that differ from one request of this plan to the next
        self.is_plain = is_plain  #: these values are visible ASCII without `"` and `%`
        self._pairs = pairs
        self.body = body  #: None: neither Content-Length nor Transfer-Encoding was sent
        self.head_bytes = head_bytes  #: with what its lines take in memory
        self.keep = keep  #: another request may follow on this connection

    def pairs(self) -> Pairs:
        """Returns the header lines one by one, without white space around values."""
        return self._pairs if self.plan is None else self.plan.pairs(self.values)
