"""What makes a set of attributes a CloudEvent: names, required attributes, times, URI-references.

Works on attributes as a Kafka record holds them: `ce_<name>` -> raw UTF-8 bytes. All bindings use these checks, so the
same rules apply however an event arrived. Does not supply a missing `id` or `time`, and does not change a value:
accepted text is kept as it was received.

The checks run once per event on the hot path. A fast predicate comes first; only when it fails does a slow walk find
the invalid attribute.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from knative.memo import remember
from knative.timefmt import is_time

#: Version 0.3 is accepted and never converted to 1.0.
SPEC_VERSIONS = frozenset((b"1.0", b"0.3"))


#: An attribute's name is part of an error message. A hostile name must not fill the log.
_NAME_SHOWN_MAX = 40

_REQUIRED = ("id", "source", "type", "specversion")
_OPTIONAL_NON_EMPTY = ("subject", "time", "dataschema", "partitionkey")

_NAME = re.compile("[a-z0-9]+").fullmatch
#: What the CloudEvents type system excludes from a String: control characters, and noncharacters (among them the last
#: two code points of each plane). Valid UTF-8 cannot hold surrogates.
_NONCHARACTERS = "\ufdd0-\ufdef" + "".join(
    map(chr, (plane << 16 | low for plane in range(17) for low in (0xFFFE, 0xFFFF)))
)
_BARRED = re.compile(f"[\x00-\x1f\x7f-\x9f{_NONCHARACTERS}]").search

# RFC 3986, appendix A. Every repeat is possessive and no two alternatives share a long prefix, so a hostile value
# costs linear time.
_ESCAPE = "%[0-9A-Fa-f]{2}"
_PLAIN = "A-Za-z0-9\\-._~!$&'()*+,;="  # unreserved and sub-delims
_H16 = "[0-9A-Fa-f]{1,4}"
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_LS32 = rf"(?:{_H16}:{_H16}|{_OCTET}(?:\.{_OCTET}){{3}})"
_IPV6 = "|".join(
    (
        f"(?:{_H16}:){{6}}{_LS32}",
        f"::(?:{_H16}:){{5}}{_LS32}",
        f"(?:{_H16})?::(?:{_H16}:){{4}}{_LS32}",
        f"(?:(?:{_H16}:){{0,1}}{_H16})?::(?:{_H16}:){{3}}{_LS32}",
        f"(?:(?:{_H16}:){{0,2}}{_H16})?::(?:{_H16}:){{2}}{_LS32}",
        f"(?:(?:{_H16}:){{0,3}}{_H16})?::{_H16}:{_LS32}",
        f"(?:(?:{_H16}:){{0,4}}{_H16})?::{_LS32}",
        f"(?:(?:{_H16}:){{0,5}}{_H16})?::{_H16}",
        f"(?:(?:{_H16}:){{0,6}}{_H16})?::",
    )
)
_IP_LITERAL = rf"\[(?:{_IPV6}|[Vv][0-9A-Fa-f]++\.[{_PLAIN}:]++)\]"
_AUTHORITY = rf"(?:(?:[{_PLAIN}:]++|{_ESCAPE})*+@)?+(?:{_IP_LITERAL}|(?:[{_PLAIN}]++|{_ESCAPE})*+)(?::[0-9]*+)?+"
_URI_REFERENCE = re.compile(
    # A scheme, or a first segment without a colon.
    rf"(?:[A-Za-z][A-Za-z0-9+.\-]*+:|(?![^/?#:]*+:))"
    # Two slashes start an authority, which ends where the path, the query or the fragment begins.
    rf"(?://{_AUTHORITY}(?=[/?#]|\Z)|(?!//))"
    rf"(?:[{_PLAIN}:@/]++|{_ESCAPE})*+"
    rf"(?:\?(?:[{_PLAIN}:@/?]++|{_ESCAPE})*+)?+"
    rf"(?:\#(?:[{_PLAIN}:@/?]++|{_ESCAPE})*+)?+".encode()
).fullmatch

#: These find out why a value is not a URI-reference, for the message only: an illegal character, a bad authority.
_NOT_OF_URIS = re.compile(rf"[^{_PLAIN}:@/?#\[\]%]|%(?![0-9A-Fa-f]{{2}})".encode()).search
_AUTHORITY_OF = re.compile(rb"(?:[^/?#:]++:)?+//([^/?#]*+)").match
_is_authority = re.compile(_AUTHORITY.encode()).fullmatch

_uris: dict[bytes, None] = {}  # sources repeat, but the sender chooses them


class BadEvent(ValueError):
    """A message that claims to be a CloudEvent but is not valid. `str()` is one line that fits into an HTTP answer.

    `attribute` is the invalid attribute ("" = the message as a whole), `reason` says why and continues a
    sentence that begins with it.
    """

    def __init__(self, attribute: str, reason: str) -> None:
        super().__init__(f"attribute '{attribute}' {reason}" if attribute else reason)
        self.attribute = attribute
        self.reason = reason


def shown(name: str) -> str:
    """Returns an attribute or header name for use in a message: printable ASCII, truncated."""
    text = name.encode("ascii", "backslashreplace").decode() if name.isprintable() else ascii(name)[1:-1]
    return text if len(text) <= _NAME_SHOWN_MAX else text[:_NAME_SHOWN_MAX] + "..."


def fault_of_text(value: bytes) -> str | None:
    """Returns why `value` is not valid attribute text (not UTF-8, a control character, a noncharacter), or None."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return "is not valid UTF-8"
    barred = None if text.isprintable() else _BARRED(text)
    if barred is None:
        return None
    return "has a control character" if barred[0] < "\xa0" else f"has U+{ord(barred[0]):04X}, which is not a character"


def fault_of_name(name: str) -> str | None:
    """Returns why `name` (lower-case) is not a valid name of an attribute in a header, or None."""
    if not name:
        return "has no name after the prefix"
    if name == "datacontenttype":
        return "belongs in the content-type header"
    if name in ("data", "data_base64"):
        return "is not an attribute: data is sent as the body"
    return None if _NAME(name) else "is not a valid name: only a-z and 0-9 are allowed"


def is_uri_reference(value: bytes) -> bool:
    """Returns whether this is a URI-reference of RFC 3986. Remembers valid ones in a table of bounded size."""
    if value in _uris:
        return True
    if _URI_REFERENCE(value) is None:
        return False
    remember(_uris, value, None)
    return True


def check(event: Mapping[str, bytes]) -> bytes | None:
    """Check a whole event and return its record key: `partitionkey`, else `subject`, else None.

    `event` holds `ce_<name>` -> text; other names are ignored. Raises BadEvent.
    """
    try:
        source = event["ce_source"]
        version = event["ce_specversion"]
        if (
            not (event["ce_id"] and event["ce_type"] and source)
            or version not in SPEC_VERSIONS
            or not (source in _uris or is_uri_reference(source))
        ):
            raise _fault(event)
    except KeyError:
        raise _fault(event) from None
    get = event.get
    time = get("ce_time")
    if time is not None and not is_time(time):
        raise _fault(event)
    schema = get("ce_dataschema" if version == b"1.0" else "ce_schemaurl")
    if schema is not None and not (schema and is_uri_reference(schema)):
        raise _fault(event)
    subject = get("ce_subject")
    key = get("ce_partitionkey", subject)
    if key == b"" or subject == b"":
        raise _fault(event)
    return key


def _fault(event: Mapping[str, bytes]) -> BadEvent:
    """Returns the first reason why `check` rejects this event. Slow, so called only when there is one."""
    if not any(name.startswith("ce_") for name in event):
        places = "in headers such as ce-type, or in a body with the content-type application/cloudevents+json"
        return BadEvent("specversion", f"is missing, and so are all others: they belong {places}")
    for name in _REQUIRED:
        if not event.get(f"ce_{name}"):
            return BadEvent(name, "is empty" if f"ce_{name}" in event else "is missing")
    if event["ce_specversion"] not in SPEC_VERSIONS:
        return BadEvent("specversion", "must be 1.0 or 0.3")
    for name in (*_OPTIONAL_NON_EMPTY, "schemaurl"):
        if event.get(f"ce_{name}") == b"" and (name != "schemaurl" or event["ce_specversion"] == b"0.3"):
            return BadEvent(name, "is empty; leave it out instead")
    if not is_uri_reference(event["ce_source"]):
        return BadEvent("source", _fault_of_uri(event["ce_source"]))
    if "ce_time" in event and not is_time(event["ce_time"]):
        return BadEvent("time", "is not an RFC 3339 date and time")
    schema = "dataschema" if event["ce_specversion"] == b"1.0" else "schemaurl"
    return BadEvent(schema, _fault_of_uri(event[f"ce_{schema}"]))


def _fault_of_uri(value: bytes) -> str:
    """Returns why a value is not a URI-reference."""
    barred = _NOT_OF_URIS(value)
    if barred is not None:
        what = "a '%' without two hex digits" if barred[0] == b"%" else f"{chr(barred[0][0])!a} unescaped"
        return f"is not a URI-reference: it has {what} at byte {barred.start()}"
    authority = _AUTHORITY_OF(value)
    if authority is not None and _is_authority(authority[1]) is None:
        return "is not a URI-reference: its authority is not [user@]host[:port]"
    return "is not a URI-reference (RFC 3986)"
