"""The rules of an event that need no message: times, URI-references, names, and how they are told."""

from __future__ import annotations

import ipaddress
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knative import memo
from knative.cloudevents import attributes
from knative.cloudevents.attributes import BadEvent, check, fault_of_text, is_uri_reference, shown
from knative.timefmt import is_time
from tests.support.profiles import examples

EVENT = {"ce_id": b"1", "ce_source": b"/s", "ce_type": b"t", "ce_specversion": b"1.0"}

TIMES = [
    "2026-11-21T10:00:00Z",
    "2026-11-21t10:00:00.123456789z",
    "2024-02-29T23:59:60+14:00",
    "2000-02-29T00:00:00-00:00",
    "2026-12-31T00:00:00.1+01:00",
    "0000-02-29T00:00:00Z",
    "2026-04-30T00:00:00Z",
]
NO_TIMES = [
    "now",
    "2026-11-21",
    "2026-11-21T10:00:00",
    "2026-11-21_10:00:00Z",
    "2026-02-29T00:00:00Z",
    "1900-02-29T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "2026-04-31T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-00-01T00:00:00Z",
    "2026-01-00T00:00:00Z",
    "2026-01-32T00:00:00Z",
    "2026-11-21T24:00:00Z",
    "2026-11-21T10:60:00Z",
    "2026-11-21T10:00:61Z",
    "2026-11-21T10:00:00.Z",
    "2026-11-21T10:00:00+0100",
    "2026-11-21T10:00:00+24:00",
    "12026-11-21T10:00:00Z",
    "2026-11-21T10:00:00Zulu",
    "٢٠٢٦-11-21T10:00:00Z",
]
URIS = [
    "/",
    "a",
    "a/b:c",
    "urn:uuid:6e8bc430-9c3a-11d9",
    "https://u@[::1]:8080/p;x?q=/?#f",
    "mailto:x@y",
    "//h/p",
    "?q",
    "#f",
    "/a%20b",
    "sensors/tn-1234567/alerts",
    "1-555-123-4567",
    "http://h",
    "./a:b",
    "/apis/v1/ns/x#name",
    "tag:x,2026:y",
    "http://",
    "//",
    "///",
    "file:///etc",
    "http://h:/",
    "http://h?q",
    "http://h#f",
    "http://u:p:q@h:80/",
    "http://@:",
    "http://%41b.c/",
    "http:a@b@c/",
    "/a:b@c@d",
    "http://1.2.3.4:80",
    "http://999.2.3.4",
    "//[1:2:3:4:5:6:7:8]",
    "//[1:2:3:4:5:6:7::]",
    "//[::2:3:4:5:6:7:8]",
    "//[1::8]:1/x",
    "//[::ffff:1.2.3.4]",
    "//[1:2:3:4:5:6:1.2.3.4]",
    "//u@[v1F.a:b(c)]:1",
]
NO_URIS = [
    "<a>",
    'x"y',
    "{a}",
    "a|b",
    "a\\b",
    "a^b",
    "a`b",
    "/%zz",
    "/%",
    "/%2",
    "1a:b",
    ":a",
    "#a#b",
    "/[x]",
    "/é",
    "/a\x00b",
    "http://[bad",
    "http://a]b/",
    "http://h:8x/",
    "http://a@b@c/",
    "http://a:b:c/",
    "http://[bad]/",
    "http://[]/",
    "http://[::1",
    "http://[::1]x/",
    "http://x[::1]/",
    "http://[::1]:8x",
    "http://[::1%25eth0]/",
    "http://[1.2.3.4]/",
    "//[1:2:3:4:5:6:7]",
    "//[1:2:3:4:5:6:7:8:9]",
    "//[1:2:3:4:5:6:7:8::]",
    "//[1::2::3]",
    "//[12345::]",
    "//[::1.2.3.256]",
    "//[::01.2.3.4]",
    "//[::1.2.3.4:5]",
    "//[v1]",
    "//[v1.]",
    "//[vg.a]",
    "//[v1.%41]",
    "//h:-1",
    "//h:%31",
    "//a@b:80@c",
]


_PARTS = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)  # appendix B
_DELIMITERS = "-._~!$&'()*+,;="


def _consists_of(text: str, more: str) -> bool:
    """Unreserved characters, sub-delims, `more` and escapes."""
    plain = re.sub("%[0-9A-Fa-f]{2}", "", text)
    return plain.isascii() and all(mark.isalnum() or mark in _DELIMITERS + more for mark in plain)


def _is_host(host: str) -> bool:
    if not host.startswith("["):
        return _consists_of(host, "")
    literal = host[1:-1]
    if not host.endswith("]"):
        return False
    if literal[:1] in ("v", "V"):
        version, _, rest = literal[1:].partition(".")
        return (
            bool(version and rest)
            and re.sub("[0-9A-Fa-f]", "", version) == ""
            and _consists_of(rest, ":")
            and ("%" not in rest)
        )
    try:
        return "%" not in literal and bool(ipaddress.IPv6Address(literal))
    except ValueError:
        return False


def by_parts(uri: str) -> bool:
    """Whether it is a URI-reference: another way than by one regular expression."""
    parts = _PARTS.fullmatch(uri)
    assert parts is not None, "appendix B takes any text apart"
    scheme, authority, path, query, fragment = parts.groups()
    if scheme is not None and not re.fullmatch("[A-Za-z][A-Za-z0-9+.-]*", scheme):
        return False
    if scheme is None and authority is None and ":" in path.partition("/")[0]:
        return False
    if authority is not None:
        user, at, rest = authority.rpartition("@")
        end = rest.rfind("]") + 1
        host, port = (rest[:end], rest[end:]) if end else (rest.partition(":")[0], rest[len(rest.partition(":")[0]) :])
        if (at and not _consists_of(user, ":")) or not _is_host(host) or not re.fullmatch("(?::[0-9]*)?", port):
            return False
    return _consists_of(path, ":@/") and _consists_of(query or "", ":@/?") and _consists_of(fragment or "", ":@/?")


_words = st.text("ab1.%-~:@/", max_size=6)
_hosts = st.one_of(
    st.sampled_from(["h", "[::1]", "[v1.a]", "1.2.3.4", ""]), st.builds("[{}]".format, st.text("0:f1.", max_size=16))
)
uri_parts = st.builds(
    lambda scheme, user, host, port, path: scheme + "//" + user + host + port + path,
    st.sampled_from(["", "a:", "A1+:", "1:"]),
    st.sampled_from(["", "u@", "u:p@", "@", "u@v@", "%41@"]),
    _hosts,
    st.sampled_from(["", ":", ":80", ":x", ":8:8"]),
    st.sampled_from(["", "/", "/a", "?q", "#f", "?#", "x", "//"]),
)
near_uris = st.builds("{}{}{}".format, _words, st.sampled_from(["", ":", "/", "//", "?", "#", "%"]), _words)


@pytest.mark.parametrize("time", TIMES)
def test_valid_time_is_accepted(time: str) -> None:
    assert is_time(time.encode())
    assert check({**EVENT, "ce_time": time.encode()}) is None


@pytest.mark.parametrize("time", [*NO_TIMES, "", "2026-11-21 10:00:00Z", "2026-11-21T10:00:00Z\n"])
def test_invalid_time_is_rejected(time: str) -> None:
    assert not is_time(time.encode())
    with pytest.raises(BadEvent, match="attribute 'time'"):
        check({**EVENT, "ce_time": time.encode()})


@pytest.mark.parametrize("uri", URIS)
def test_valid_uri_reference_is_accepted(uri: str) -> None:
    for _ in range(2):
        assert check({**EVENT, "ce_source": uri.encode(), "ce_dataschema": uri.encode()}) is None


@pytest.mark.parametrize("uri", [*NO_URIS, "a b", " a", "a\n"])
def test_invalid_uri_reference_is_rejected(uri: str) -> None:
    for _ in range(2):
        with pytest.raises(BadEvent, match="attribute 'source'"):
            check({**EVENT, "ce_source": uri.encode()})
        with pytest.raises(BadEvent, match="attribute 'dataschema'"):
            check({**EVENT, "ce_dataschema": uri.encode()})


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("http://a@b@c/", "its authority is not [user@]host[:port]"),
        ("//[bad", "its authority is not [user@]host[:port]"),
        ("/a b", "it has ' ' unescaped at byte 2"),
        ("/é", "it has '\\xc3' unescaped at byte 1"),
        ("/a%2", "it has a '%' without two hex digits at byte 2"),
        ("/[x]", "is not a URI-reference (RFC 3986)"),
        ("1a:b", "is not a URI-reference (RFC 3986)"),
    ],
)
def test_invalid_uri_has_a_reason(uri: str, reason: str) -> None:
    for version, schema in ((b"1.0", "dataschema"), (b"0.3", "schemaurl")):
        for name in ("source", schema):
            with pytest.raises(BadEvent) as refused:
                check({**EVENT, "ce_specversion": version, f"ce_{name}": uri.encode()})
            assert refused.value.attribute == name
            assert reason in refused.value.reason


@examples(3000)
@given(st.one_of(uri_parts, near_uris, st.text("a:/?#[]@1.%vf -", max_size=12)))
@example("//[::%41]")
def test_uri_references_are_those_of_the_grammar_read_part_by_part(uri: str) -> None:
    assert is_uri_reference(uri.encode()) is by_parts(uri)


def test_table_of_uris_stays_bounded() -> None:
    for number in range(memo.ENTRIES_MAX + 10):
        assert is_uri_reference(b"/more/%d" % number)
    assert is_uri_reference(b"/" + b"a" * 10_000)
    assert len(attributes._uris) <= memo.ENTRIES_MAX
    assert max(map(len, attributes._uris)) <= memo.ENTRY_BYTES_MAX


def test_hostile_uris_cost_little() -> None:
    assert not is_uri_reference(b"a" * 100_000 + b" ")
    assert not is_uri_reference(b"//" + b"a%41" * 50_000 + b"\\")
    for part in (b"a:", b"a@", b"%41", b"[", b"[::", b"0:", b"1.", b"/", b"//", b"?", b"#", b"a%", b"v1.", b"::"):
        for start in (b"", b"//", b"a://", b"//[", b"//[v1.", b"//a@"):
            assert not is_uri_reference(start + part * 50_000 + b" ")


@pytest.mark.parametrize("code", [0xFDD0, 0xFDEF, 0xFFFE, 0xFFFF, 0x1FFFE, 0x9FFFF, 0x10FFFE, 0x10FFFF])
def test_noncharacters_are_not_text(code: int) -> None:
    assert fault_of_text(f"a{chr(code)}".encode()) == f"has U+{code:04X}, which is not a character"


def test_all_other_characters_are_text() -> None:
    barred = {*range(0x20), *range(0x7F, 0xA0), *range(0xFDD0, 0xFDF0)}
    barred |= {plane << 16 | low for plane in range(17) for low in (0xFFFE, 0xFFFF)}
    scalars = (code for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    assert {code for code in scalars if fault_of_text(chr(code).encode())} == barred


@pytest.mark.parametrize(
    ("name", "text"), [("id", "id"), ("a\nb", "a\\nb"), ("\u00e9", "\\xe9"), ("x" * 100, "x" * 40 + "..."), ("", "")]
)
def test_name_in_a_message_is_escaped_and_short(name: str, text: str) -> None:
    assert shown(name) == text
