"""When a status is written to the API server, and when the object has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.kube.api_server import ApiServer
from controller.plan.actions import WriteStatus
from controller.status.cluster.writer import ClusterStatus, LiveObject
from knative.resources.conditions import true, unknown

READY = WriteStatus("KafkaChannel", "ns", "orders", "u", 1, (true("Ready"),), {"address": {"url": "http://x/"}})
STATUSES = [READY, replace(READY, conditions=(unknown("Ready", "Why", "what"),)), replace(READY, body={})]
NOW = 1_000_000.0


def _live(status: Mapping[str, Any] | None, generation: int = 1) -> LiveObject:
    raw: dict[str, Any] = {"metadata": {"uid": "u", "generation": generation}}
    return LiveObject(raw if status is None else {**raw, "status": status}, "/path", "v1", lambda _: None)


def _writer() -> ClusterStatus:
    return ClusterStatus(ApiServer(), lambda *_: None, lambda: True, "me")


def test_status_is_written_until_the_object_has_it_and_again_when_somebody_changes_it() -> None:
    writer = _writer()
    document = writer._due(READY, _live(None), NOW)
    assert document is not None
    has_it = _live(document)
    assert [writer._due(READY, has_it, NOW + look) for look in (1, 2)] == [None, None]
    assert writer._due(STATUSES[1], has_it, NOW) is not None, "another status"
    theirs = _live({**document, "address": {"url": "http://theirs/"}})
    assert writer._due(READY, theirs, NOW) == document, "another object under the same status"
    assert writer._due(READY, _live(document, generation=2), NOW) is None, "decided about another spec"


@given(st.lists(st.tuples(st.sampled_from(STATUSES), st.booleans()), max_size=12))
def test_what_is_remembered_of_former_looks_decides_nothing(looks: list[tuple[WriteStatus, bool]]) -> None:
    """`looks`: a status, and whether it is written when it is due."""
    writer, live = _writer(), _live(None)
    for status, written in looks:
        document = writer._due(status, live, NOW)
        assert document == _writer()._due(status, live, NOW)
        if written and document is not None:
            live = _live(document)
