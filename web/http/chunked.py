"""Where a chunked body ends, how big it is, and how much of it is extensions and trailers.

Pure: bytes in, a position out, and what the parser is to see of them. It runs before the parser, which does the
decoding, because the parser tells neither its position nor the size of what it skips, and knows no white space in
extensions: it is given whole lines, without them. The two must agree on the last byte (`web/http/request_reader`
refuses if they do not). Refuses every size line that is not plain hexadecimal digits with an optional extension.
"""

from __future__ import annotations

import re

from web.http.config import DriverConfig, HttpRejection

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[\t -~]*)?\r\n").fullmatch
_SIZE_LINE_BYTES_MAX = 16 + 2  #: beside the extension


class ChunkWalk:
    """The walk through one chunked body; `feed` it every byte after the head, once."""

    __slots__ = (
        "_config",
        "_extension_bytes",
        "_line",
        "_skip_bytes",
        "_trailer_bytes",
        "_trailing",
        "body_bytes",
        "plain",
    )

    def __init__(self, config: DriverConfig) -> None:
        self._config = config
        self._line = b""
        self._skip_bytes = 0
        self._trailing = False
        self._extension_bytes = 0
        self._trailer_bytes = 0
        self.body_bytes = 0  #: announced so far
        self.plain = b""  #: what the last bytes fed are without extensions, in whole lines: for the parser

    def feed(self, data: bytes, start: int) -> int:
        """The position just behind the body in `data`, or -1: it goes on. Raises Refusal (400, 413, 431)."""
        parts: list[bytes] = []
        end = self._walk(data, start, parts)
        self.plain = b"".join(parts)
        return end

    def _walk(self, data: bytes, pos: int, parts: list[bytes]) -> int:
        size = len(data)
        while pos < size:
            if self._skip_bytes:
                step = min(self._skip_bytes, size - pos)
                self._skip_bytes -= step
                parts.append(data[pos : pos + step])
                pos += step
                continue
            end = data.find(b"\n", pos)
            if end < 0:
                self._line += data[pos:]
                self._check_line(len(self._line))
                return -1
            line = self._line + data[pos : end + 1]
            self._line = b""
            pos = end + 1
            if not self._trailing:
                parts.append(self._size_line(line) + b"\r\n")
                continue
            parts.append(line)
            if line == b"\r\n":
                return pos
            self._check_line(len(line))
            self._trailer_bytes += len(line)
        return -1

    def _check_line(self, line_bytes: int) -> None:
        if self._trailing:
            if self._trailer_bytes + line_bytes > self._config.trailer_bytes_max:
                raise HttpRejection(431, f"trailers of more than {self._config.trailer_bytes_max} bytes")
        elif self._extension_bytes + line_bytes > self._config.chunk_extension_bytes_max + _SIZE_LINE_BYTES_MAX:
            raise HttpRejection(400, f"chunk extensions of more than {self._config.chunk_extension_bytes_max} bytes")

    def _size_line(self, line: bytes) -> bytes:
        """-> its digits."""
        found = _SIZE_LINE(line)
        if found is None:
            raise HttpRejection(400, "a chunk whose size line cannot be read")
        digits = found[1]
        self._extension_bytes += len(line) - len(digits) - 2
        if self._extension_bytes > self._config.chunk_extension_bytes_max:
            raise HttpRejection(400, f"chunk extensions of more than {self._config.chunk_extension_bytes_max} bytes")
        chunk_bytes = int(digits, 16)
        self._trailing = chunk_bytes == 0
        self._skip_bytes = chunk_bytes + 2 if chunk_bytes else 0
        self.body_bytes += chunk_bytes
        if self.body_bytes > self._config.event_bytes_max:
            raise HttpRejection(413, f"a body of more than {self._config.event_bytes_max} bytes")
        return digits
