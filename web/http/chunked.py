"""Finds the end of a chunked body, and its size with and without extensions and trailers. Pure.

It runs before the parser, which decodes the chunks, because the parser reports neither its position nor the size of
what it skips, and does not accept white space in extensions. So the parser gets whole size lines without extensions.
Both must agree on the last byte, else `web/http/request_reader` rejects the request: a disagreement about where a
request ends is how request smuggling works.
"""

from __future__ import annotations

import re

from web.http.config import DriverConfig, HttpRejection

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[\t -~]*)?\r\n").fullmatch
_SIZE_LINE_BYTES_MAX = 16 + 2  #: beside the extension


class ChunkWalk:
    """The walk through one chunked body. `feed` it every byte after the head, once."""

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
        self.body_bytes = 0  #: as announced by the size lines so far
        self.plain = b""  #: the bytes of the last `feed` for the parser: whole lines, without extensions

    def feed(self, data: bytes, start: int) -> int:
        """Returns where the body in `data` ends, or -1 if the body continues. Raises HttpRejection (400, 413, 431)."""
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
                self._check_line(len(self._line))  # now: a client may send an endless line
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
                raise HttpRejection(431, f"the trailers have more than {self._config.trailer_bytes_max} bytes")
        elif self._extension_bytes + line_bytes > self._config.chunk_extension_bytes_max + _SIZE_LINE_BYTES_MAX:
            raise self._too_many_extensions()

    def _too_many_extensions(self) -> HttpRejection:
        most = self._config.chunk_extension_bytes_max
        return HttpRejection(400, f"the chunk extensions have more than {most} bytes")

    def _size_line(self, line: bytes) -> bytes:
        """Returns the digits of a size line: hexadecimal, with an optional extension. Prepares to skip the chunk."""
        match = _SIZE_LINE(line)
        if match is None:
            raise HttpRejection(400, "the size line of a chunk is not valid")
        digits = match[1]
        self._extension_bytes += len(line) - len(digits) - 2
        if self._extension_bytes > self._config.chunk_extension_bytes_max:
            raise self._too_many_extensions()
        chunk_bytes = int(digits, 16)
        self._trailing = chunk_bytes == 0
        self._skip_bytes = chunk_bytes + 2 if chunk_bytes else 0  # with its CR LF
        self.body_bytes += chunk_bytes
        if self.body_bytes > self._config.event_bytes_max:
            raise HttpRejection(413, f"the body has more than {self._config.event_bytes_max} bytes")
        return digits
