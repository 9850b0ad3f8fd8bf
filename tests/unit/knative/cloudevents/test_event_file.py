"""Events in files: JSON, or HTTP requests in binary and structured mode; errors name the file and the place."""

from __future__ import annotations

import pytest

from knative.cloudevents.event_file import read_event
from knative.errors import UsageError
from knative.filters.attributes import attributes_of

_EVENT = {"id": "1", "source": "/shop", "type": "order.created", "specversion": "1.0"}
_JSON = b'{"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.created"'
_HEADERS = b"ce-id: 1\nCE-Source:  /shop \nce-type: order.created\nce-specversion: 1.0\n"


@pytest.mark.parametrize(
    ("content", "further"),
    [
        (_JSON + b"}", {}),
        (b"\xef\xbb\xbf\n" + _JSON + b', "amount": 7, "data": {"a": 1}}\n', {"amount": "7", "datacontenttype": ""}),
        (_HEADERS, {}),
        (_HEADERS.replace(b"\n", b"\r\n") + b"\r\n{}", {}),
        (b"POST /a/b HTTP/1.1\r\nHost: x\r\n" + _HEADERS.replace(b"\n", b"\r\n") + b"\r\nnot json\r\n", {}),
        (b"HTTP/1.1 200 OK\n" + _HEADERS + b"content-type: text/plain\n\nhello", {"datacontenttype": "text/plain"}),
        (_HEADERS + b"ce-customer: J%C3%BCrgen\n", {"customer": "Jürgen"}),
        (b"Content-Type: application/cloudevents+json\n\n" + _JSON + b', "vip": true}', {"vip": "true"}),
    ],
    ids=["json", "json with data", "headers", "body", "request", "answer", "encoded", "structured"],
)
def test_event_in_a_file(content: bytes, further: dict[str, str]) -> None:
    headers, _, value = read_event(content, "event.txt")
    attributes = attributes_of(headers, value) or {}
    assert attributes.items() >= {**_EVENT, **{name: text for name, text in further.items() if text}}.items()


def test_key_is_that_of_the_record() -> None:
    assert read_event(_HEADERS + b"ce-subject: 7\n", "x")[1] == b"7"
    assert read_event(_HEADERS + b"ce-subject: 7\nce-partitionkey: k\n", "x")[1] == b"k"
    assert read_event(_HEADERS, "x")[1] is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b" \n", "event.txt is empty. Write a CloudEvent as a JSON object"),
        (b"[{}]", "event.txt contains a JSON array, but must contain a single event. Write a single event"),
        (b"{", "event.txt is not a valid CloudEvent: malformed structured JSON"),
        (_JSON.replace(b'"id": "1", ', b"") + b"}", "event.txt is not a valid CloudEvent: attribute 'id' is missing."),
        (_HEADERS.replace(b"/shop", b"a b"), "attribute 'source' is not a URI-reference"),
        (b"ce-id: 1\nhello world\n", "event.txt, line 2: 'hello world' is not a header. Write a CloudEvent as"),
        (b"ce-id: 1\nce-id: 2\n", "attribute 'id' appears twice"),
        (b"content-type: application/cloudevents-batch+json\n\n[]", "batches are not accepted"),
    ],
)
def test_errors_name_the_file_and_the_place(content: bytes, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_event(content, "event.txt")
    assert says in str(caught.value)
