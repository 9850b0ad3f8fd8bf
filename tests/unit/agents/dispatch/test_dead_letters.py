"""Dead letters: the event as it was, why it failed, where it came from; and smaller versions of the same."""

from __future__ import annotations

import base64

from agents.dispatch.dead_letters import unreadable_versions, versions
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import Delivery, PartitionState
from knative.contract.records import Subscription
from knative.delivery.attempt import Outcome
from knative.delivery.policy import Addressable
from knative.delivery.verdicts import RetryableFailure

SUBSCRIPTION = Subscription("u1", 1, "ns", "sub", "c1", "ch", "t", "t.dlq", 4, "kafka.u1", Addressable("http://s/"))
EVENT: list[tuple[str, bytes | None]] = [
    ("ce_specversion", b"0.3"),
    ("ce_id", b"1"),
    ("ce_source", b"/s"),
    ("ce_type", b"t"),
    ("content-type", b"text/plain"),
    ("traceparent", b"00-x"),
]


def record(headers: list[tuple[str, bytes | None]]) -> Delivery:
    return Delivery(PartitionState("t", 3, OffsetTracker(40)), 41, b"k", b"body", headers, 100)


def failed(body: bytes = b"it broke") -> Outcome:
    return Outcome(RetryableFailure(503, "the answer was 503", body), "http://s/x", 4, 1_700_000_001.5, 0.1)


def test_event_stays_and_the_failure_is_added() -> None:
    whole, _, _ = versions(record(EVENT), SUBSCRIPTION, failed(), 1_700_000_000.0)
    headers = dict(whole)
    assert all(headers[name] == value for name, value in EVENT)
    assert headers["ce_knativeerrordest"] == b"http://s/x"
    assert headers["ce_knativeerrorcode"] == b"503"
    assert base64.b64decode(headers["ce_knativeerrordata"] or b"") == b"it broke"
    assert {name: value for name, value in headers.items() if name.startswith("penstock-")} == {
        "penstock-subscription-uid": b"u1",
        "penstock-subscription": b"ns/sub",
        "penstock-topic": b"t",
        "penstock-partition": b"3",
        "penstock-offset": b"41",
        "penstock-attempts": b"4",
        "penstock-first-failure": b"2023-11-14T22:13:20.000Z",
        "penstock-last-failure": b"2023-11-14T22:13:21.500Z",
        "penstock-reason": b"the answer was 503",
    }


def test_smaller_versions_drop_data_first_then_our_headers_never_the_event() -> None:
    whole, without_data, bare = (dict(v) for v in versions(record(EVENT), SUBSCRIPTION, failed(), 0.0))
    assert "ce_knativeerrordata" in whole
    assert "ce_knativeerrordata" not in without_data
    assert "penstock-reason" in without_data
    assert not [name for name in bare if name.startswith("penstock-")]
    assert all(bare[name] == value for name, value in EVENT)


def test_error_data_is_at_most_1024_characters() -> None:
    whole, _, _ = versions(record(EVENT), SUBSCRIPTION, failed(b"x" * 5_000), 0.0)
    assert len(dict(whole)["ce_knativeerrordata"] or b"") <= 1024


def test_second_dead_letter_replaces_the_marks_of_the_first() -> None:
    once, _, _ = versions(record(EVENT), SUBSCRIPTION, failed(), 0.0)
    twice, _, _ = versions(record(once), SUBSCRIPTION, failed(b"again"), 0.0)
    assert sorted(name for name, _ in twice) == sorted(name for name, _ in once)


def test_unreadable_record_is_kept_as_it_is() -> None:
    junk: list[tuple[str, bytes | None]] = [("ce_id", b"\xff"), ("ce_id", None), ("penstock-reason", b"forged")]
    with_reason, bare = unreadable_versions(record(junk), SUBSCRIPTION, "no source", 0.0)
    assert with_reason[:2] == junk[:2]
    assert [value for name, value in with_reason if name == "penstock-reason"] == [b"no source"]
    assert bare == junk[:2]
