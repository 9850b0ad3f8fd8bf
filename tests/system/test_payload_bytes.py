"""Bytes in are bytes out, through ingress, Kafka and delivery: bodies of every awkward kind, awkward attributes.

Also what ingress answers with a real Kafka behind it, and an event of the greatest size that fails for ever.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from app.local.kafka import EmbeddedKafka
from knative.cloudevents.record_headers import UNREADABLE_NAME, UNREADABLE_REASON, record_headers
from tests.support import librdkafka
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.processes import Worker, wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.support.subscriber import Request, ScriptedSubscriber, says
from tests.system.sending import PLAIN, Answered, HeaderLines, exchange, post, request

pytestmark = pytest.mark.system

LIMIT_S = 180.0
LIMIT_BYTES = 1024 * 1024


def event(*headers: tuple[str, str | bytes], without: str = "") -> HeaderLines:
    """The lines of a good event, less one, and more."""
    plain = [pair for pair in [("ce-id", "x"), *PLAIN] if pair[0] != without]
    return [*plain, *headers]


@dataclass(frozen=True, slots=True)
class Running:
    """A worker with one channel: `echo` accepts everything, `dying` rejects everything."""

    installation: Installation
    worker: Worker
    subscriber: ScriptedSubscriber

    @property
    def target(self) -> str:
        """The path of the channel."""
        return f"/channels/{NAMESPACE}/{self.installation.resources.channel}"

    def stored(self, event_id: str) -> Message:
        """The record of this event."""
        (message,) = [
            message
            for message in reader.records(self.installation.bootstrap, self.installation.resources.topic)
            if reader.header(message, "ce_id") == event_id
        ]
        return message

    def delivered(self, event_id: str) -> Request:
        """What the subscriber got of this event; waits for it."""
        requests: list[Request] = []

        def came() -> bool:
            requests[:] = [
                received for received in self.subscriber.requests("/echo") if received.attributes["id"] == event_id
            ]
            return bool(requests)

        wait_until(f"{event_id} is delivered", came, LIMIT_S)
        assert len(requests) == 1
        return requests[0]


@pytest.fixture(scope="module")
def running(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Ready to take events."""
    installation = Installation(kafka.bootstrap, tmp_path_factory.mktemp("bytes"), partitions=2)
    with ScriptedSubscriber() as subscriber:
        echo = subscriber.script("/echo", says(200))
        dying = subscriber.script("/dying", says(400, os.urandom(4000)))
        installation.write([Wanted("echo", echo, "unordered"), Wanted("dying", dying, delivery={"retry": 1})])
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, 2)
            yield Running(installation, worker, subscriber)
            assert worker.terminate() == 0, worker.tail()


BODIES = {
    "array": b'[1,   true, "x",\n {"a": []}]',
    "true": b"true",
    "digits": b"12345678901234567890",
    "fraction": b"1.00000000000000000001e5",
    "string": b'"a \\u0041"',
    "nul": b"\x00\x00a\x00",
    "not-utf-8": b"\xff\xfe\xc0\xa0",
    "broken-json": b'{"a": ',
    "spaces": b" { } ",
    "empty": b"",
    "line-ends": b"\r\n\r\n0\r\n\r\n",
    "limit": os.urandom(LIMIT_BYTES),
}


@pytest.mark.parametrize("content_type", ["application/json", "application/octet-stream", "text/plain; charset=latin1"])
@pytest.mark.parametrize("name", BODIES)
def test_bodies_are_unchanged(name: str, content_type: str, running: Running) -> None:
    event_id = f"{name}-{content_type.partition(';')[0].replace('/', '-')}"
    answer = post(running.worker.port, running.target, event_id, BODIES[name], [("content-type", content_type)])
    assert answer == Answered(202, answer.headers, b"")
    got = running.delivered(event_id)
    assert got.body == BODIES[name]
    assert got.header("content-type") == content_type


def test_absent_body_stays_absent(running: Running) -> None:
    """Null in Kafka, where a body of no bytes and some type is a value of no bytes; nothing at the subscriber."""
    typed = [("content-type", "text/plain")]
    for event_id, body, headers in (("absent", None, []), ("zero", b"", []), ("typed", b"", typed)):
        assert post(running.worker.port, running.target, event_id, body, headers).status == 202
        assert running.delivered(event_id).body == b""
    installation = running.installation
    values = {
        reader.header(message, "ce_id"): message.value()
        for message in reader.records(installation.bootstrap, installation.resources.topic)
    }
    assert values["absent"] is None
    assert values["zero"] is None
    assert values["typed"] == b""


@pytest.mark.parametrize(
    ("event_id", "attributes"),
    [
        ("many", [(f"ce-x{number}", f"{number}-" * 60) for number in range(200)]),
        ("long", [("ce-subject", "a" * 65_536), ("ce-x", "b" * 60_000)]),
    ],
)
def test_events_with_large_heads_pass(event_id: str, attributes: list[tuple[str, str]], running: Running) -> None:
    """Beside the largest body."""
    body = os.urandom(LIMIT_BYTES)
    assert post(running.worker.port, running.target, event_id, body, attributes).status == 202
    got = running.delivered(event_id)
    assert got.body == body
    assert [got.attributes[name.removeprefix("ce-")] for name, _ in attributes] == [value for _, value in attributes]


#: header as sent -> header as delivered (the canonical encoding)
ATTRIBUTES: dict[str, tuple[str | bytes, str]] = {
    "spaces": ("a b", "a%20b"),
    "encoded": ("a%20b%22c%22", "a%20b%22c%22"),
    "quoted": ('"a b"', "a%20b"),
    "escaped": ('"a \\"b\\""', "a%20%22b%22"),
    "percent": ("100%", "100%25"),
    "stray": ("%zz", "%25zz"),
    "needless": ("%41%62c", "Abc"),
    "lowercase": ("%c3%a9", "%C3%A9"),
    "unicode": ("\u20ac\U0001f600".encode(), "%E2%82%AC%F0%9F%98%80"),
    "twice": ("%2541", "%2541"),
    "punctuation": ("!#$&'()*+,-./:;<=>?@[]^_`{|}~", "!#$&'()*+,-./:;<=>?@[]^_`{|}~"),
    "averylongextensionnameindeed": ("x" * 2000, "x" * 2000),
}


def test_attributes_are_unchanged(running: Running) -> None:
    given: HeaderLines = [(f"ce-{name}", value) for name, (value, _) in ATTRIBUTES.items()]
    assert post(running.worker.port, running.target, "attributes", b"", given).status == 202
    got = running.delivered("attributes").attributes
    assert {name: got[name] for name in ATTRIBUTES} == {name: value for name, (_, value) in ATTRIBUTES.items()}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("time", "2026-11-21T10:00:00.123456789Z"),
        ("time", "2026-11-21t10:00:00.1+01:30"),
        ("specversion", "0.3"),
        ("dataschema", "https://example.org/s#1"),
        ("source", "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66"),
        ("source", "https://files.example/a%20b"),
        ("source", "urn:x:%C3%A4"),
        ("source", "/100%25"),
        ("source", "/a%2520b"),
        ("dataschema", "https://files.example/a%2Fb"),
        ("partitionkey", "k%201"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ],
)
def test_known_attributes_travel_as_text(name: str, value: str, running: Running) -> None:
    event_id = f"known-{name}-{len(value)}"
    assert post(running.worker.port, running.target, event_id, b"x", [(f"ce-{name}", value)]).status == 202
    got = running.delivered(event_id).attributes
    assert got[name] == value
    assert got.keys() == {"id", "source", "type", "specversion", name}  # nothing was invented


def test_headers_beside_the_event_pass_through(running: Running) -> None:
    passed = [
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("tracestate", "a=1, b=2"),
        ("x-request-id", "r1"),
        ("knative-error-dest", "d"),
        ("x-b3-traceid", "80f198ee56343ba864fe8b2a57d3eff7"),
        ("x-b3-sampled", "1"),
    ]
    assert post(running.worker.port, running.target, "beside", b"", [*passed, ("x-other", "o")]).status == 202
    got = running.delivered("beside")
    assert [got.header(name) for name, _ in passed] == [value for _, value in passed]
    assert got.header("x-other") is None
    message = running.stored("beside")
    assert [reader.header(message, name) for name, _ in passed] == [value for _, value in passed]
    assert reader.header(message, "x-other") == ""


def test_key_of_a_record(running: Running) -> None:
    both: HeaderLines = [("ce-partitionkey", "p%201"), ("ce-subject", "s")]
    for event_id, given, key in (("key-1", both, b"p 1"), ("key-2", both[1:], b"s"), ("key-3", [], None)):
        assert post(running.worker.port, running.target, event_id, b"", given).status == 202
        message = running.stored(event_id)
        assert message.key() == key
        assert reader.header(message, "ce_partitionkey") == ("p 1" if given == both else "")


STRUCTURED = [
    (b'{"data": {"a":1.50,  "b":12345678901234567890}, ', b'{"a":1.50,  "b":12345678901234567890}', "application/json"),
    (b'{"data": "text", "datacontenttype": "text/plain", ', b"text", "text/plain"),
    (b'{"data": "text", ', b'"text"', "application/json"),
    (b'{"data": null, ', b"null", "application/json"),
    (b'{"data_base64": "AP8=", "datacontenttype": "a/b", ', b"\x00\xff", "a/b"),
    (b'{"data_base64": "aGVsbG8K", ', b"hello\n", None),
    (b"{", b"", None),
]


@pytest.mark.parametrize(("number", "case"), list(enumerate(STRUCTURED)))
def test_structured_events_are_delivered_in_binary_mode(
    number: int, case: tuple[bytes, bytes, str | None], running: Running
) -> None:
    start, data, content_type = case
    rest = b'"specversion": "1.0", "id": "s%d", "source": "/s", "type": "t", "ext": "a b"}' % number
    headers = [("content-type", "application/cloudevents+json; charset=utf-8")]
    answer = exchange(running.worker.port, request(running.target, headers, start + rest))
    assert answer.status == 202, answer.body
    got = running.delivered(f"s{number}")
    assert got.body == data
    assert got.attributes == {"specversion": "1.0", "id": f"s{number}", "source": "/s", "type": "t", "ext": "a%20b"}
    assert got.header("content-type") == content_type
    message = running.stored(f"s{number}")
    assert (message.value() or b"") == data
    assert reader.header(message, "ce_ext") == "a b"
    assert not reader.header(message, "content-type").startswith("application/cloudevents")


def test_largest_event_that_fails_for_ever_is_kept_in_the_dlq_topic(running: Running) -> None:
    body = os.urandom(LIMIT_BYTES)
    assert post(running.worker.port, running.target, "largest", body).status == 202
    installation = running.installation
    installation.wait_settled(["dying"], 180)
    letters = [
        message
        for message in reader.records(installation.bootstrap, installation.resources.dlq_topic)
        if reader.header(message, "ce_id") == "largest"
    ]
    assert [message.value() == body for message in letters] == [True]
    assert reader.header(letters[0], "ce_knativeerrorcode") == "400"
    assert reader.header(letters[0], "penstock-subscription") == f"{NAMESPACE}/dying"


#: Of each setting that bounds a request, and of what is no event. name -> (status, header lines, body)
REFUSED: dict[str, tuple[int, HeaderLines, bytes]] = {
    "no attributes": (400, [], b"x"),
    "attribute twice": (400, event(("ce-a", "1"), ("CE-A", "2")), b""),
    "one over": (413, event(), b"x" * (LIMIT_BYTES + 1)),
    "header bytes": (431, event(("ce-a", "x" * 140_000)), b""),
    "header count": (431, event(*[(f"ce-a{number}", "1") for number in range(513)]), b""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_request_is_refused_in_one_line(name: str, running: Running) -> None:
    status, headers, body = REFUSED[name]
    answer = exchange(running.worker.port, request(running.target, headers, body))
    assert answer.status == status, answer.body
    assert answer.body.count(b"\n") <= 1
    assert b"Traceback" not in answer.body


def test_channel_is_reached_by_path_and_by_host(running: Running) -> None:
    """By path, by host, and what is in no contract."""
    port, channel = running.worker.port, running.installation.resources.channel
    for number, host in enumerate(
        [f"{channel}-kn-channel.{NAMESPACE}.svc", f"{channel}-kn-channel.{NAMESPACE}.svc:80"]
    ):
        data = request("/", event(("ce-id", f"h{number}"), without="ce-id"), b"", host=host)
        assert exchange(port, data).status == 202
        assert running.delivered(f"h{number}").body == b""
    url = f"http://{channel}-kn-channel.{NAMESPACE}.svc:80/"
    assert exchange(port, request(url, event(("ce-id", "url"), without="ce-id"), b"", host="other")).status == 202
    assert running.delivered("url").body == b""
    assert exchange(port, request(url, [], None, "OPTIONS", host="other"), "OPTIONS").status == 200
    assert exchange(port, request("http://other/", event(), b"", host=url[7:-1])).status == 404
    assert exchange(port, request("/channels/test/other", [], None, "OPTIONS"), "OPTIONS").status == 404
    for target in ("/", "/channels/test/other", "/channels/other/" + channel, "/x", running.target + "/more"):
        assert exchange(port, request(target, event(), b"")).status == 404


def test_only_post_and_options_are_allowed(running: Running) -> None:
    port, target = running.worker.port, running.target
    for method in ("GET", "PUT", "DELETE", "PATCH", "HEAD"):
        answer = exchange(port, request(target, [], None, method), method)
        assert (answer.status, "POST" in answer.headers["allow"]) == (405, True), method
    options = exchange(port, request(target, [], None, "OPTIONS"), "OPTIONS")
    assert (options.status, options.headers["allow"]) == (200, "POST, OPTIONS")
    assert "webhook-allowed-origin" not in options.headers
    hook = exchange(port, request(target, [("webhook-request-origin", "me")], None, "OPTIONS"), "OPTIONS")
    assert (hook.headers["webhook-allowed-origin"], hook.headers["webhook-allowed-rate"]) == ("*", "*")
    probe = [("k-network-probe", "probe"), ("k-network-hash", "h1")]
    answer = exchange(port, request(target, probe, None, "GET"), "GET")
    assert (answer.status, answer.headers["k-network-hash"]) == (200, "h1")
    assert exchange(port, request("/channels/a/b", probe, None, "GET"), "GET").status == 404


def test_upgrade_is_ignored(running: Running) -> None:
    """Java's default client offers h2c with every POST: the body must arrive all the same."""
    headers = [("upgrade", "h2c"), ("connection", "Upgrade, HTTP2-Settings"), ("http2-settings", "AAMAAABkAAQAAP__")]
    assert post(running.worker.port, running.target, "upgrade", b"body", headers).status == 202
    assert running.delivered("upgrade").body == b"body"


def test_chunked_bodies_arrive_whole(running: Running) -> None:
    headers = event(("ce-id", "chunked"), ("transfer-encoding", "chunked"), without="ce-id")
    data = request(running.target, headers) + b"3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n"
    assert exchange(running.worker.port, data).status == 202
    assert running.delivered("chunked").body == b"abcdefg"


def test_what_kafka_refuses_as_too_large_is_413(running: Running) -> None:
    """The topic's limit is below ours. The controller mends that at its next look, so it is set again for each try."""
    admin = AdminClient({"bootstrap.servers": running.installation.bootstrap})
    statuses: dict[str, int] = {}

    def set_limit(limit_bytes: int) -> None:
        entry = ConfigEntry("max.message.bytes", str(limit_bytes), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource("topic", running.installation.resources.topic, incremental_configs=[entry])
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(180)

    def refused() -> bool:
        set_limit(100_000)
        event_id = f"too-large-{len(statuses)}"
        statuses[event_id] = post(running.worker.port, running.target, event_id, os.urandom(300_000)).status
        return statuses[event_id] == 413

    wait_until("Kafka's refusal is answered 413", refused, LIMIT_S)
    assert set(statuses.values()) <= {202, 413}
    set_limit(2 * LIMIT_BYTES)
    wait_until(
        "it is taken again",
        lambda: post(running.worker.port, running.target, "taken", os.urandom(300_000)).status == 202,
        LIMIT_S,
    )
    assert len(running.delivered("taken").body) == 300_000
    came = {received.attributes["id"] for received in running.subscriber.requests("/echo")}
    assert not {event_id for event_id, status in statuses.items() if status == 413} & came


def test_record_with_undecodable_header_names_is_dead_lettered(running: Running) -> None:
    """Of another producer. The worker goes on; the commands that look at records show it."""
    installation = running.installation
    topic = installation.resources.topic
    librdkafka.produce(installation.bootstrap, topic, b"of another producer", (b"\xff\xfe", b"x"))
    assert post(running.worker.port, running.target, "after-it", b"{}").status == 202
    running.delivered("after-it")

    def letters() -> list[dict[str, str]]:
        return [
            {name: (content or b"").decode() for name, content in record_headers(message)}
            for message in reader.records(installation.bootstrap, f"{topic}.dlq")
            if message.value() == b"of another producer"
        ]

    wait_until("both subscriptions gave it up", lambda: len(letters()) == 2, LIMIT_S)
    for letter in letters():
        assert letter[UNREADABLE_NAME] == UNREADABLE_REASON
        assert UNREADABLE_REASON in letter["penstock-reason"]
    channel = f"{NAMESPACE}/{installation.resources.channel}"
    for command in (["tail", channel, "--last", "1000", "--no-follow", "-o", "json"], ["dlq", "list"]):
        looked = installation.penstock(*command)
        assert looked.returncode == 0, looked.stderr
        assert UNREADABLE_REASON in looked.stdout
    assert running.worker.running
