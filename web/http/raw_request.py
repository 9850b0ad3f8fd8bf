"""A request as the reader passes it to the driver and to views that want no more."""

from __future__ import annotations

from web.http.headers import Pairs, strip


class RawRequest:
    """One complete request, as it was sent."""

    __slots__ = ("body", "head_bytes", "host", "keep", "method", "names", "target", "values")

    def __init__(
        self,
        method: bytes,
        target: bytes,
        host: bytes | None,
        names: tuple[bytes, ...],
        values: tuple[bytes, ...],
        body: bytes | None,
        head_bytes: int,
        keep: bool,
    ) -> None:
        self.method = method
        self.target = target
        self.host = host
        self.names = names  #: of the header lines, in order; the same object for requests that repeat them
        self.values = values  #: of the header lines, in the same order; white space may follow a value
        self.body = body  #: None: neither Content-Length nor Transfer-Encoding was sent
        self.head_bytes = head_bytes
        self.keep = keep  #: another request may follow on this connection

    def pairs(self) -> Pairs:
        """The header lines one by one, without white space around values, as a new list."""
        return strip(zip(self.names, self.values, strict=True))
