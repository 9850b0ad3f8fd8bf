"""A real worker keeps what Knative Serving and proxies add to requests and answers out of Kafka and of deliveries."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from knative.cloudevents.record_headers import record_headers
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.proxy_headers import PROXY_HEADERS
from tests.support.resources import Wanted
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import PLAIN, exchange, post, request

pytestmark = pytest.mark.system

LIMIT_S = 180.0
REPLY = [f"{name}: {value!s}" for name, value in [("ce-id", "reply"), *PLAIN, *PROXY_HEADERS]]
ENVELOPE = b'{"specversion": "1.0", "id": "structured", "source": "/s", "type": "t"}'


def test_headers_of_proxies_reach_neither_records_nor_subscribers(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """In binary, structured and batch mode, in replies, retries and dead letters."""
    installation = Installation(kafka.bootstrap, tmp_path)
    with ScriptedSubscriber() as subscriber:
        installation.write(
            [
                Wanted("json", subscriber.script("/json", says(200)), delivery={"format": "json"}),
                Wanted(
                    "replying",
                    subscriber.script("/replying", says(200, b"{}", *REPLY), says(200)),
                    reply=subscriber.script("/answers", says(200)),
                ),
                Wanted("failing", subscriber.script("/failing", says(503, b"", *REPLY)), delivery={"retry": 1}),
            ]
        )
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, 3)
            target = installation.resources.path
            batch = [("content-type", "application/cloudevents-batch+json"), *PROXY_HEADERS]
            assert exchange(worker.port, request(target, batch, b"[" + ENVELOPE + b"]")).status == 400
            structured = [("content-type", "application/cloudevents+json"), *PROXY_HEADERS]
            assert exchange(worker.port, request(target, structured, ENVELOPE)).status == 202
            assert post(worker.port, target, "binary", b"{}", PROXY_HEADERS).status == 202
            installation.wait_settled(["json", "replying", "failing"], LIMIT_S)
            paths = {"/json": 2, "/replying": 2, "/answers": 1, "/failing": 4}
            got = {path: subscriber.requests(path) for path in paths}
            assert {path: len(requests) for path, requests in got.items()} == paths
            assert [delivered.attributes["id"] for delivered in got["/answers"]] == ["reply"]
            assert [delivered.attributes for delivered in got["/json"]] == [{}, {}], "these are structured"
            for delivered in (delivered for requests in got.values() for delivered in requests):
                _has_none(delivered.pairs)
            stored = list(reader.records(installation.bootstrap, installation.resources.topic))
            letters = list(reader.records(installation.bootstrap, installation.resources.dlq_topic))
            assert [reader.header(message, "ce_id") for message in stored] == ["structured", "binary"]
            assert [reader.header(letter, "ce_id") for letter in letters] == ["structured", "binary"]
            for message in (*stored, *letters):
                _has_none([(name.encode(), value) for name, value in record_headers(message)])
            assert worker.terminate() == 0, worker.tail()


def _has_none(pairs: Iterable[tuple[bytes, bytes | None]]) -> None:
    """Neither under its name, nor its value under another."""
    headers = list(pairs)
    assert not {name.lower() for name, _ in headers} & {name.lower().encode() for name, _ in PROXY_HEADERS}
    text = b"\n".join(value or b"" for _, value in headers)
    assert [value for _, value in PROXY_HEADERS if value.encode() in text] == []
