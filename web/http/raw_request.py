"""A request as the reader passes it to the driver and to views that want no more."""

from __future__ import annotations

from web.http.headers import Fields


class RawRequest:
    """One complete request, as it was sent."""

    __slots__ = ("body", "fields", "head_bytes", "host", "keep", "method", "target")

    def __init__(
        self,
        method: bytes,
        target: bytes,
        host: bytes | None,
        fields: Fields,
        body: bytes | None,
        head_bytes: int,
        keep: bool,
    ) -> None:
        self.method = method
        self.target = target
        self.host = host
        self.fields = fields  #: header lines; valid until the next request is read, because the reader uses them again
        self.body = body  #: None: neither Content-Length nor Transfer-Encoding was sent
        self.head_bytes = head_bytes
        self.keep = keep  #: another request may follow on this connection
