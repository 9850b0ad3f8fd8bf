"""The instruments themselves: the reader of Kafka, the sink, the load generator, the scripted subscriber's peer.

What the proofs rest on is tried here against what is known: own commits, own records, own requests.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from app.local.kafka import EmbeddedKafka
from benchmarks.behaviour import HANG, Answers, Behaviour
from tests.support.ledger import reader
from tests.support.ledger.facts import Received, Sent, Stored, body_hash, read
from tests.support.processes import Failed, LoadProcess, SinkProcess, free_port

pytestmark = pytest.mark.system


def test_reader_sees_every_commit_and_record(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    """Also with metadata whose length takes two bytes, and commits that a later one has replaced."""
    topic, started_s = make_topic(2), time.time()
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(5):
        producer.produce(topic, b"v%d" % number, f"k{number}", 1, headers=[("ce_id", b"e%d" % number)])
    assert producer.flush(180) == 0
    group = f"{topic}-group"
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    for offset, metadata in [(1, ""), (2, "m"), (3, "m" * 3000)]:
        place = TopicPartition(topic, 1, offset, metadata)
        (done,) = consumer.commit(offsets=[place], asynchronous=False) or []
        assert done.error is None
    consumer.close()
    commits = reader.committed(kafka.bootstrap, [group])
    assert [(fact.topic, fact.partition, fact.offset) for fact in commits] == [(topic, 1, n) for n in (1, 2, 3)]
    assert all(started_s - 1 < fact.time_s < time.time() + 1 for fact in commits)
    assert reader.stored(kafka.bootstrap, topic) == [
        Stored(topic, 1, number, f"e{number}", f"k{number}", body_hash(b"v%d" % number)) for number in range(5)
    ]
    assert reader.ends(kafka.bootstrap, topic) == {0: 0, 1: 5}
    assert reader.position(kafka.bootstrap, group, topic, 2) == {1: 3}


def test_load_and_sink_agree(tmp_path: Path) -> None:
    """Every event arrives once, with equal hashes; a key's events one after the other; failures as asked."""
    with SinkProcess(tmp_path, {"a/b": "fail_every=10,delay_s=0.001"}, tmp_path / "received") as sink:
        options = {"events": 500, "keys": 20, "connections": 10, "sequential": True, "ledger": tmp_path / "sent"}
        with LoadProcess(tmp_path, sink.url("a/b"), **options) as load:
            result = load.result(180)
        assert (result["complete"], result["sent"], result["statuses"]) == (True, 500, {"200": 450, "500": 50})
        stats = sink.stats()["a/b"]
        assert sink.terminate() == 0
    assert (stats["received"], stats["distinct"], stats["failed"], stats["corrupt"]) == (500, 500, 50, 0)
    sent = {fact.id: fact for fact in read(tmp_path / "sent") if isinstance(fact, Sent)}
    received = {fact.id: fact for fact in read(tmp_path / "received") if isinstance(fact, Received)}
    assert sent.keys() == received.keys()
    last: dict[str | None, tuple[int, float]] = {}
    for fact in sent.values():
        got = received[fact.id]
        assert (got.body_hash, got.attributes_hash) == (fact.body_hash, fact.attributes_hash)
        assert fact.time_s <= got.time_s <= got.answered_s <= fact.answered_s
        seq, answered_s = last.get(fact.key, (-1, 0.0))
        assert (fact.seq, answered_s <= fact.time_s) == (seq + 1, True)
        last[fact.key] = (fact.seq, fact.answered_s)


def test_load_gives_up_on_who_never_answers(tmp_path: Path) -> None:
    """Hung requests count as unanswered, and no caller waits for ever."""
    with SinkProcess(tmp_path, {"a": "hang_every=1"}) as sink:
        options = {"events": 3, "connections": 3, "limit_s": 1, "ledger": tmp_path / "sent"}
        with LoadProcess(tmp_path, sink.url("a"), **options) as load, pytest.raises(Failed, match="did not finish"):
            load.result(180)
    assert [fact.status for fact in read(tmp_path / "sent") if isinstance(fact, Sent)] == [0, 0, 0]


def test_load_waits_for_a_server_that_is_not_there_yet(tmp_path: Path) -> None:
    with LoadProcess(tmp_path, f"http://127.0.0.1:{free_port()}/x", seconds=0.5, events=0) as load:
        result = load.result(180)
    assert (result["complete"], result["sent"]) == (True, 0)


@given(st.integers(2, 20), st.integers(1, 4))
def test_every_nth_event_fails_for_ever(every: int, attempts: int) -> None:
    answers = Answers(Behaviour(fail_every=every))
    for number in range(1, 50):
        expected = 500 if number % every == 0 else 200
        assert [answers.next(str(number), attempt + 1) for attempt in range(attempts)] == [expected] * attempts


def test_behaviours_are_read_and_repeat_with_their_seed() -> None:
    behaviour = Behaviour.parse("fail_chance=0.5,seed=7,fail_status=503,delay_s=0.1")
    assert behaviour == Behaviour(delay_s=0.1, fail_chance=0.5, fail_status=503, seed=7)
    first, second = Answers(behaviour), Answers(behaviour)
    drawn = [first.next(str(number), 1) for number in range(100)]
    assert drawn == [second.next(str(number), 1) for number in range(100)]
    assert set(drawn) == {200, 503}
    assert Answers(Behaviour(hang_every=1)).next("e", 1) == HANG
    with pytest.raises(ValueError, match="'often' is not one of"):
        Behaviour.parse("often=1")
