"""The data of an event for people: JSON with indents, text, or bytes in hex; and the event as curl sends it. Pure."""

from __future__ import annotations

import base64
import codecs
import json
import re
from dataclasses import dataclass
from itertools import islice
from shlex import quote

from knative import shown
from knative.cloudevents.http_binding import encode_value
from web.console.acts import StoredEvent
from web.console.limits import Limits

_LIMITS = Limits()
_UTF8 = codecs.getincrementaldecoder("utf-8")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Body:
    """Data as a page shows it. `text` has no character that is invisible or misleads; it is not escaped for HTML."""

    form: str  #: JSON, text, bytes or "no data"
    text: str
    size: int
    is_whole: bool


def body_of(data: bytes | None) -> Body:
    """Returns what a page shows of the data."""
    if not data:
        return Body("no data", "", 0, True)
    head = data[: _LIMITS.data_bytes_max]
    try:
        text: str | None = _UTF8().decode(head, final=len(head) == len(data))
    except UnicodeDecodeError:
        text = None
    if text is None or "\0" in text or "\ufffd" in text:
        return Body("bytes", hexdump(data[: _LIMITS.hex_bytes_max]), len(data), len(data) <= _LIMITS.hex_bytes_max)
    is_whole = len(head) == len(data)
    formatted = indented(text) if is_whole else None
    if formatted is None:
        return Body("text", _visible(text), len(data), is_whole)
    most = 4 * _LIMITS.data_bytes_max  # with its indents
    return Body("JSON", _visible(formatted[:most]), len(data), len(formatted) <= most)


def _visible(text: str) -> str:
    return "\n".join(shown.visible(line, _LIMITS.data_bytes_max) for line in text.replace("\r\n", "\n").split("\n"))


def indented(text: str) -> str | None:
    """Returns JSON, one member a line; numbers and strings stay as they are written. None: it is not JSON."""
    try:
        if not isinstance(json.loads(text), (dict, list)):
            return None
    except (ValueError, RecursionError):
        return None
    lines, depth = [""], 0
    tokens = _TOKEN.findall(text)
    for token, after in zip(tokens, [*islice(tokens, 1, None), ""], strict=True):
        if token in "{[" and after not in ("}", "]"):
            depth += 1
            lines[-1] += token
            lines.append("  " * min(depth, _LIMITS.indents_max))
        elif token in "}]" and lines[-1][-1:] not in ("{", "["):
            depth -= 1
            lines.append("  " * min(depth, _LIMITS.indents_max) + token)
        elif token == ",":
            lines[-1] += token
            lines.append("  " * min(depth, _LIMITS.indents_max))
        else:
            lines[-1] += ": " if token == ":" else token
    return "\n".join(lines)


def hexdump(data: bytes) -> str:
    """Returns offset, sixteen bytes in hex, and the same as ASCII."""
    rows = (data[start : start + 16] for start in range(0, len(data), 16))
    return "\n".join(
        f"{number * 16:06x}  {row.hex(' '):47}  {''.join(chr(byte) if 32 <= byte < 127 else '.' for byte in row)}"
        for number, row in enumerate(rows)
    )


def curl(event: StoredEvent, url: str) -> str | None:
    """Returns the command that sends the same event again, as a safe line to paste; None: its data is too large."""
    if event.size > _LIMITS.data_bytes_max:
        return None
    headers = []
    for name, value in event.attributes.items():
        if not name.isascii() or not name.isalnum() or name.startswith("knativeerror"):
            continue
        if name != "datacontenttype":
            headers.append(f"ce-{name}: {encode_value(value.encode()).decode()}")
        elif value.isascii() and value.isprintable():
            headers.append(f"content-type: {value}")
    parts = ["curl", "-i", quote(url), *(f"-H {quote(header)}" for header in headers)]
    data = event.data or b""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if shown.visible(text, _LIMITS.data_bytes_max) == text and not text.startswith("@"):
        return " ".join([*parts, f"--data-binary {quote(text)}"])
    return f"echo {base64.b64encode(data).decode()} | base64 -d | {' '.join(parts)} --data-binary @-"
