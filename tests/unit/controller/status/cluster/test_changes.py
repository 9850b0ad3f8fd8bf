"""What is written about an object: its status, and Events for some of its changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.plan.actions import WriteStatus
from controller.status.cluster.changes import EventDraft, event_object, events, status_document
from knative.resources.conditions import Condition, false, true, unknown

NOT_SERVED = unknown("Ready", "NotServed", "no worker serves it")
REFUSED = false("Ready", "ChannelNotFound", "add the channel")
DIFFERS = true("Ready", "TopicDiffers", "it has 3 partitions")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((), (true("Ready"),), [EventDraft(False, "Ready", "the resource is served as specified")]),
        ((true("Ready"),), (true("Ready"),), []),
        ((), (NOT_SERVED,), []),
        ((REFUSED,), (NOT_SERVED,), []),
        ((true("Ready"),), (NOT_SERVED,), [EventDraft(True, "NotServed", "no worker serves it")]),
        ((NOT_SERVED,), (REFUSED,), [EventDraft(True, "ChannelNotFound", "add the channel")]),
        ((REFUSED,), (REFUSED,), []),
        ((REFUSED,), (false("Ready", "Other", "x"),), [EventDraft(True, "Other", "x")]),
        ((true("Ready"),), (DIFFERS,), [EventDraft(True, "TopicDiffers", "it has 3 partitions")]),
        ((DIFFERS,), (DIFFERS,), []),
        ((), (true("TopicReady"),), []),
    ],
)
def test_which_changes_are_events(
    before: tuple[Condition, ...], after: tuple[Condition, ...], expected: list[EventDraft]
) -> None:
    assert events(before, after) == expected


def test_status_keeps_the_time_of_a_condition_that_did_not_change() -> None:
    status = WriteStatus(
        "KafkaChannel", "ns", "orders", "u", 2, (true("TopicReady"), NOT_SERVED), {"address": {"url": "x"}}
    )
    assert "subscribers" not in status_document(replace(status, body={"subscribers": []}), None, 0.0)
    first = status_document(status, None, 1_700_000_000.0)
    assert first["observedGeneration"] == 2
    assert first["address"] == {"url": "x"}
    again = status_document(status, first, 1_700_000_060.0)
    assert again == first


def test_event_names_its_object() -> None:
    status = WriteStatus("KafkaChannel", "ns", "orders", "u", 2, (), {})
    event = event_object(EventDraft(True, "TopicDiffers", "n" * 2000), status, "v1", "e", 1_700_000_000.0625, "me")
    assert event["eventTime"] == "2023-11-14T22:13:20.062500Z"
    assert event["regarding"] == {
        "apiVersion": "v1",
        "kind": "KafkaChannel",
        "namespace": "ns",
        "name": "orders",
        "uid": "u",
    }
    assert (event["type"], event["reason"], len(event["note"])) == ("Warning", "TopicDiffers", 1000)


def test_note_of_an_event_is_cut_to_bytes() -> None:
    """The API server counts bytes."""
    status = WriteStatus("KafkaChannel", "ns", "orders", "u", 2, (), {})
    event = event_object(EventDraft(True, "TopicDiffers", "é" * 499 + "€" * 9), status, "v1", "e", 1.0, "me")
    assert event["note"] == "é" * 499, "of the next one there is room for two of three bytes"
