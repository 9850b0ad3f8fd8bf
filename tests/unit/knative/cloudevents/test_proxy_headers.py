"""What Knative Serving and proxies add to a request reaches neither a record nor a subscriber."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knative.cloudevents.http_binding import BadEvent, is_pass_through, read_reply, to_record
from knative.cloudevents.kafka_binding import to_json_request, to_request
from tests.support.proxy_headers import PROXY_HEADERS
from tests.unit.knative.cloudevents.wire import record_of_lines

BINARY = [(b"ce-id", b"1"), (b"ce-source", b"/s"), (b"ce-type", b"t"), (b"ce-specversion", b"1.0")]
STRUCTURED = [(b"Content-Type", b"application/cloudevents+json; charset=UTF-8")]
ENVELOPE = b'{"id":"1","source":"/s","type":"t","specversion":"1.0","data":{"a": 1.10}}'


@pytest.mark.parametrize("change", [str, str.lower, str.upper])
@pytest.mark.parametrize("name", [name for name, _ in PROXY_HEADERS])
def test_request_and_reply_are_stored_as_without_it(name: str, change: Callable[[str], str]) -> None:
    added = (change(name).encode(), b"v")
    for pairs, body in ((BINARY, b""), (STRUCTURED, ENVELOPE)):
        plain = to_record(pairs, body)
        for _ in range(2):  # the second time its name is in the tables
            assert to_record([*pairs, added], body) == plain
            assert to_record([*pairs, added, added], body) == plain
            assert record_of_lines([added, *pairs], body) == plain
            assert read_reply([added, *pairs], body) == plain
    assert not is_pass_through(name.lower())


def test_batch_with_them_is_refused() -> None:
    added = [(name.encode(), value.encode()) for name, value in PROXY_HEADERS]
    with pytest.raises(BadEvent, match="batches are not accepted"):
        to_record([(b"content-type", b"application/cloudevents-batch+json"), *added], b"[" + ENVELOPE + b"]")


@pytest.mark.parametrize("change", [str, str.lower])
def test_those_in_records_of_other_producers_are_not_sent(change: Callable[[str], str]) -> None:
    binary: list[tuple[str, bytes | None]] = [(name.decode().replace("-", "_"), value) for name, value in BINARY]
    structured: list[tuple[str, bytes | None]] = [("content-type", b"application/cloudevents+json")]
    added: list[tuple[str, bytes | None]] = [(change(name), value.encode()) for name, value in PROXY_HEADERS]
    for make in (to_request, to_json_request):
        for headers, value in ((binary, b"1"), (structured, ENVELOPE)):
            assert make(b"POST / HTTP/1.1", [*headers, *added], value) == make(b"POST / HTTP/1.1", headers, value)
