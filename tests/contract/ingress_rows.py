"""The ingress answer table as rows: one request each, what is answered, and what is stored. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

EVENT_BYTES_MAX = 64 * 1024
CE = {"ce-id": "1", "ce-source": "/s", "ce-type": "t", "ce-specversion": "1.0"}
ATTRIBUTES = {"ce_id": b"1", "ce_source": b"/s", "ce_type": b"t", "ce_specversion": b"1.0"}
URL = "/channels/demo/orders"
STRUCTURED = {"content-type": "application/cloudevents+json"}
ENVELOPE_START = b'{"id":"1","source":"/s","type":"t","specversion":"1.0"'
ENVELOPE = ENVELOPE_START + b',"data":[1,true]}'


@dataclass(frozen=True)
class Row:
    """One request and what must come of it."""

    name: str
    status: int
    method: str = "POST"
    path: str = URL
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = b"{}"
    says: tuple[str, ...] = ()  #: in the body
    answers: dict[str, str | None] = field(default_factory=dict)  #: headers of the answer; None: absent
    topic: str | None = None  #: where the record is, None: nothing was stored
    record: tuple[dict[str, bytes], bytes | None] | None = None  #: its headers and value; None: not looked at


def binary(name: str, status: int, **changes: Any) -> Row:
    """A binary-mode event with other headers; a header of None is left out."""
    headers = {key: value for key, value in {**CE, **changes.pop("headers", {})}.items() if value is not None}
    topic = "t.orders" if status == 202 else None
    return Row(name, status, headers=headers, **{"topic": topic, **changes})


def refused(name: str, attribute: str, headers: dict[str, str | None], body: bytes = b"{}") -> Row:
    """A 400 that names the attribute."""
    return binary(name, 400, headers=headers, body=body, says=(f'"attribute": "{attribute}"',))


def enveloped(name: str, status: int, rest: str, **changes: Any) -> Row:
    """A structured event with more members."""
    body = ENVELOPE_START + rest.encode() + b"}"
    topic = "t.orders" if status == 202 else None
    return Row(name, status, body=body, **{"headers": STRUCTURED, "topic": topic, **changes})


def stored(value: bytes | None, content_type: bytes | None = b"application/json", **more: bytes) -> Any:
    """The record of a structured event: in binary mode."""
    typed = {} if content_type is None else {"content-type": content_type}
    return {**ATTRIBUTES, **more, **typed}, value


ALLOW: dict[str, str | None] = {"allow": "POST, OPTIONS"}
PROBE = {"K-Network-Probe": "probe", "K-Network-Hash": "abc"}

ROWS = [
    # 202, and addressing
    binary("valid event by path", 202),
    binary("trailing slash", 202, path=URL + "/"),
    binary("a query is ignored", 202, path=URL + "?x=1"),
    binary("by service host", 202, path="/", headers={"Host": "orders-kn-channel.demo.svc.cluster.local"}),
    binary("by service host, short, with port", 202, path="/", headers={"Host": "orders-kn-channel.demo.svc:8080"}),
    binary("by service host, capitals", 202, path="/", headers={"Host": "ORDERS-kn-channel.Demo.svc"}),
    binary("by published host", 202, path="/", headers={"Host": "orders.example.com:80"}),
    binary("absolute form", 202, path="http://orders.example.com/", headers={"Host": "orders.example.com"}),
    binary("absolute form, other host", 202, path="http://orders.example.com/", headers={"Host": "nobody.example.com"}),
    binary(
        "absolute form, with port", 202, path="http://Orders.example.com:80/", headers={"Host": "orders.example.com"}
    ),
    binary("absolute form, no path", 202, path="http://orders-kn-channel.demo.svc", headers={"Host": "x"}),
    binary(
        "absolute form, Host is ignored",
        404,
        path="http://nobody.example.com/",
        headers={"Host": "orders.example.com"},
        says=("nobody.example.com",),
    ),
    binary("absolute form, the path counts", 202, path="http://x" + URL, headers={"Host": "bills-kn-channel.demo.svc"}),
    binary("the path counts, not the host", 202, headers={"Host": "bills-kn-channel.demo.svc"}),
    binary("a broker", 202, path="/demo/default", topic="t.broker"),
    binary("a broker, trailing slash", 202, path="/demo/default/", topic="t.broker"),
    Row("structured", 202, headers=STRUCTURED, body=ENVELOPE, topic="t.orders"),
    binary("specversion 0.3", 202, headers={"ce-specversion": "0.3"}),
    # 404 and 503
    binary(
        "unknown channel", 404, path="/channels/demo/nothing", says=("no KafkaChannel demo/nothing", "POST /channels/")
    ),
    binary("unknown broker", 404, path="/demo/nothing", says=("no Broker demo/nothing",)),
    binary("a channel is no broker", 404, path="/demo/orders", says=("no Broker",)),
    binary(
        "unknown host",
        404,
        path="/",
        headers={"Host": "nobody.example.com"},
        says=("nobody.example.com", "POST /channels/"),
    ),
    binary(
        "by the address of a channel of another namespace, which a channel claims and must not have",
        404,
        path="/",
        headers={"Host": "lost-kn-channel.shop.svc.cluster.local"},
        says=("there is no KafkaChannel shop/lost",),
    ),
    binary(
        "unknown service host",
        404,
        path="/",
        headers={"Host": "no-kn-channel.demo.svc"},
        says=("no KafkaChannel demo/no",),
    ),
    binary("another path", 404, path="/a/b/c/d", says=("POST /channels/<namespace>/<channel>",)),
    binary("one segment", 404, path="/favicon.ico"),
    # OPTIONS and other methods
    Row("OPTIONS", 200, "OPTIONS", answers={**ALLOW, "webhook-allowed-origin": None}),
    Row(
        "OPTIONS of a webhook",
        200,
        "OPTIONS",
        headers={"WebHook-Request-Origin": "sender.example.com"},
        answers={**ALLOW, "webhook-allowed-origin": "*", "webhook-allowed-rate": "*"},
    ),
    Row("OPTIONS of nothing", 404, "OPTIONS", "/channels/demo/nothing", says=("no KafkaChannel demo/nothing",)),
    Row("OPTIONS by host", 200, "OPTIONS", "/", headers={"Host": "orders.example.com"}, answers=ALLOW),
    Row("OPTIONS of a host that no channel has", 404, "OPTIONS", "/", headers={"WebHook-Request-Origin": "x"}),
    Row("OPTIONS in absolute form", 200, "OPTIONS", "http://orders.example.com/", headers={"Host": "x"}, answers=ALLOW),
    Row("OPTIONS in absolute form of nothing", 404, "OPTIONS", "http://x/", headers={"Host": "orders.example.com"}),
    Row("GET", 405, "GET", answers=ALLOW),
    Row("GET /", 405, "GET", "/", answers=ALLOW),
    Row("HEAD", 405, "HEAD", answers=ALLOW),
    Row("PUT", 405, "PUT", answers=ALLOW),
    Row("DELETE", 405, "DELETE", answers=ALLOW),
    Row("PATCH", 405, "PATCH", answers=ALLOW),
    Row("a method Faust does not know", 405, "PROPFIND", answers=ALLOW),
    # probes
    Row("network probe", 200, "GET", headers=PROBE, answers={"k-network-hash": "abc"}),
    Row(
        "network probe without hash", 200, "GET", headers={"K-Network-Probe": "probe"}, answers={"k-network-hash": None}
    ),
    Row(
        "network probe of nothing",
        404,
        "GET",
        "/channels/demo/nothing",
        headers=PROBE,
        answers={"k-network-hash": None},
    ),
    Row(
        "network probe in absolute form",
        200,
        "GET",
        "http://orders.example.com/",
        headers=PROBE | {"Host": "x"},
        answers={"k-network-hash": "abc"},
    ),
    Row("another probe", 405, "GET", headers={"K-Network-Probe": "else"}),
    # 400 for events
    Row("no CloudEvents attributes", 400, headers={"content-type": "application/json"}, says=('"error"',)),
    *(refused(f"{name} is missing", name, {f"ce-{name}": None}) for name in ("id", "source", "type", "specversion")),
    *(refused(f"{name} is empty", name, {f"ce-{name}": ""}) for name in ("id", "source", "type", "specversion")),
    refused("specversion 2.0", "specversion", {"ce-specversion": "2.0"}),
    refused("bad attribute name", "b_d", {"ce-b_d": "x"}),
    refused("bad time", "time", {"ce-time": "yesterday"}),
    refused("source is no URI-reference", "source", {"ce-source": "a b"}),
    *(
        refused(f"source is {uri}", "source", {"ce-source": uri})
        for uri in ("http://[bad", "http://a]b/", "http://h:8x/", "http://a@b@c/", "http://a:b:c/")
    ),
    refused("dataschema is no URI-reference", "dataschema", {"ce-dataschema": "http://a]b/"}),
    refused("a noncharacter", "subject", {"ce-subject": "%EF%BF%BE"}),
    refused("a noncharacter in the id", "id", {"ce-id": "%ef%b7%90"}),
    refused("empty subject", "subject", {"ce-subject": ""}),
    refused("ce-datacontenttype", "datacontenttype", {"ce-datacontenttype": "text/plain"}),
    refused("control character", "subject", {"ce-subject": "a%00b"}),
    Row("malformed JSON", 400, headers=STRUCTURED, body=b"{", says=('"error"',)),
    Row("batch", 400, headers={"content-type": "application/cloudevents-batch+json"}, body=b"[]", says=("batch",)),
    Row("unknown format", 400, headers={"content-type": "application/cloudevents+avro"}, says=('"error"',)),
    refused("empty time", "time", {"ce-time": ""}),
    refused("empty dataschema", "dataschema", {"ce-dataschema": ""}),
    # structured events, and how they are stored
    enveloped("data is kept to the byte", 202, ',"data": {"a": 1.50}', record=stored(b'{"a": 1.50}')),
    enveloped("no data", 202, "", record=stored(None, None)),
    enveloped("data that is null", 202, ',"data":null', record=stored(b"null")),
    enveloped("a string as JSON", 202, ',"data":"x"', record=stored(b'"x"')),
    enveloped("a string as text", 202, ',"data":"x","datacontenttype":"a/b"', record=stored(b"x", b"a/b")),
    enveloped("bytes", 202, ',"data_base64":"AP8=","datacontenttype":"a/b"', record=stored(b"\0\xff", b"a/b")),
    enveloped("bytes without a type", 202, ',"data_base64":"aGVsbG8K"', record=stored(b"hello\n", None)),
    enveloped("null members", 202, ',"subject":null,"x":null,"y":"1"', record=stored(None, None, ce_y=b"1")),
    enveloped(
        "the payload wins",
        202,
        ',"note":"in"',
        headers=STRUCTURED | CE | {"ce-id": "2", "ce-note": "out", "ce-a_b": "bad", "ce-other": "x"},
        record=stored(None, None, ce_note=b"in"),
    ),
    enveloped("capitals", 202, "", headers={"content-type": "Application/CloudEvents+JSON; Charset=UTF-8"}),
    Row("batch in capitals", 400, headers={"content-type": "APPLICATION/CLOUDEVENTS-BATCH+JSON"}, body=b"[]"),
    enveloped("data and data_base64", 400, ',"data":1,"data_base64":"AA=="', says=("cannot be combined",)),
    enveloped(
        "data and data_base64, both null", 400, ',"data":null,"data_base64":"AA=="', says=("cannot be combined",)
    ),
    enveloped(
        "structured, dataschema is no URI-reference",
        400,
        ',"dataschema":"http://h:8x/"',
        says=("attribute 'dataschema'", "authority"),
    ),
    enveloped("structured, a noncharacter", 400, ',"subject":"a\\ufffe"', says=("attribute 'subject'", "U+FFFE")),
    Row(
        "structured, source is no URI-reference",
        400,
        headers=STRUCTURED,
        body=ENVELOPE.replace(b"/s", b"http://[bad"),
        says=("attribute 'source'",),
    ),
    enveloped("bad base64", 400, ',"data_base64":"A"', says=("base64",)),
    enveloped("NaN", 400, ',"data":NaN', says=("NaN",)),
    enveloped("Infinity", 400, ',"data":[-Infinity]', says=("Infinity",)),
    enveloped("a member twice", 400, ',"x":"1","x":"2"', says=("twice",)),
    enveloped("id twice", 400, ',"id":"2"', says=("twice",)),
    enveloped("data nested 60,000 deep", 400, ',"data":' + "[" * 60_000, says=("too deeply",)),
    enveloped("an attribute nested 10,000 deep", 400, ',"x":' + '{"a":' * 10_000, says=("too deeply",)),
    Row("a byte order mark", 400, headers=STRUCTURED, body=b"\xef\xbb\xbf" + ENVELOPE, says=("byte order mark",)),
    Row("an empty envelope", 400, headers=STRUCTURED, body=b"", says=("empty",)),
    # plain headers beside the event
    binary(
        "plain headers pass through",
        202,
        headers={"Knative-Foo": "a", "X-B3-TraceId": "b", "tracestate": "c=1,\td=2", "X-Request-Id": "e", "x-y": "f"},
        record=(
            ATTRIBUTES | {"knative-foo": b"a", "x-b3-traceid": b"b", "tracestate": b"c=1, d=2", "x-request-id": b"e"},
            b"{}",
        ),
    ),
    # sizes
    binary("a body of exactly the limit", 202, body=b"\xff" * EVENT_BYTES_MAX),
    binary("a body one byte over the limit", 413, body=b"x" * (EVENT_BYTES_MAX + 1)),
    binary("a body ten times over the limit", 413, body=b"x" * (EVENT_BYTES_MAX * 10)),
    binary("200 attributes", 202, headers={f"ce-x{i}": "a" * 300 for i in range(200)}),
    binary("an attribute of 64 KiB", 202, headers={"ce-x": "a" * 65_536}),
    binary("500 header lines", 202, headers={f"x{i}": "a" for i in range(490)}),
    binary("header bytes over the limit", 431, headers={"x": "a" * 140_000}),
    binary("header bytes over the limit together", 431, headers={f"x{i}": "a" * 30_000 for i in range(5)}),
    binary("too many headers", 431, headers={f"x{i}": "a" for i in range(513)}),
    # no data, and data of length 0
    binary("no data", 202, body=None, record=(ATTRIBUTES, None)),
    binary("Content-Length 0", 202, body=b"", headers={"content-length": "0"}, record=(ATTRIBUTES, None)),
    binary(
        "Content-Length 0 with a type",
        202,
        body=b"",
        headers={"content-length": "0", "content-type": "text/plain"},
        record=(ATTRIBUTES | {"content-type": b"text/plain"}, b""),
    ),
    binary(
        "Content-Length 0, read with care",
        202,
        body=b"",
        headers={"content-length": "0", "ce-subject": "a%20b"},
        record=(ATTRIBUTES | {"ce_subject": b"a b"}, None),
    ),
    # framing and coding
    binary("Content-Encoding gzip", 400, headers={"Content-Encoding": "gzip"}),
    binary(
        "Content-Length with Transfer-Encoding", 400, headers={"Transfer-Encoding": "chunked", "Content-Length": "2"}
    ),
    binary("Transfer-Encoding gzip, chunked", 400, headers={"Transfer-Encoding": "gzip, chunked"}, body=b"0\r\n\r\n"),
]
