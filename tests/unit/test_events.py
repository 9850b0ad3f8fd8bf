"""The rules of an event that need no message: times, URI-references, names, and how they are told."""

from __future__ import annotations

import pytest

from knative import events
from knative.events import BadEvent, check, is_time, is_uri_reference, shown

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
]


@pytest.mark.parametrize("time", TIMES)
def test_times(time: str) -> None:
    assert is_time(time.encode())
    assert check({**EVENT, "ce_time": time.encode()}) is None


@pytest.mark.parametrize("time", [*NO_TIMES, "", "2026-11-21 10:00:00Z", "2026-11-21T10:00:00Z\n"])
def test_bad_times(time: str) -> None:
    assert not is_time(time.encode())
    with pytest.raises(BadEvent, match="attribute 'time'"):
        check({**EVENT, "ce_time": time.encode()})


@pytest.mark.parametrize("uri", URIS)
def test_uri_references(uri: str) -> None:
    for _ in range(2):
        assert check({**EVENT, "ce_source": uri.encode(), "ce_dataschema": uri.encode()}) is None


@pytest.mark.parametrize("uri", [*NO_URIS, "a b", " a", "a\n"])
def test_no_uri_references(uri: str) -> None:
    for _ in range(2):
        with pytest.raises(BadEvent, match="attribute 'source'"):
            check({**EVENT, "ce_source": uri.encode()})
        with pytest.raises(BadEvent, match="attribute 'dataschema'"):
            check({**EVENT, "ce_dataschema": uri.encode()})


def test_the_table_of_uris_stays_bounded() -> None:
    for number in range(events.URI_TABLE_ENTRIES_MAX + 10):
        assert is_uri_reference(b"/more/%d" % number)
    assert is_uri_reference(b"/" + b"a" * 10_000)
    assert len(events._uris) <= events.URI_TABLE_ENTRIES_MAX
    assert max(map(len, events._uris)) <= events.URI_TABLE_VALUE_BYTES_MAX


def test_hostile_uris_cost_little() -> None:
    assert not is_uri_reference(b"a" * 100_000 + b" ")
    assert not is_uri_reference(b"//" + b"a%41" * 50_000 + b"\\")


@pytest.mark.parametrize(
    ("name", "text"), [("id", "id"), ("a\nb", "a\\nb"), ("\u00e9", "\\xe9"), ("x" * 100, "x" * 40 + "..."), ("", "")]
)
def test_names_in_messages(name: str, text: str) -> None:
    assert shown(name) == text
