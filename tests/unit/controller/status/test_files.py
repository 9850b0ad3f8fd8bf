"""Status files: whole, only when something is new, gone with their object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.model import FileProblem
from controller.plan.actions import WriteStatus
from controller.status.files import StatusFiles
from knative.contract.leader_state import Removal
from knative.errors import UsageError
from knative.resources.conditions import Condition, false, ready, true, unknown

REMOVAL = Removal("u", "KafkaChannel", "default/orders", "t", topics=("t", "t.dlq"), since=1.5)


def status(*parts: Condition, name: str = "orders", kind: str = "KafkaChannel", **body: Any) -> WriteStatus:
    return WriteStatus(kind, "default", name, "u", 2, (ready(parts), *parts), body)


def said(root: Path, name: str = "orders") -> dict[str, Any]:
    document: dict[str, Any] = json.loads((root / "KafkaChannel" / f"default.{name}.json").read_text("utf-8"))
    return document


def test_shape_of_a_status(tmp_path: Path) -> None:
    assert StatusFiles(tmp_path).write(status(true("TopicReady"), address={"url": "http://h"}), 0.0)
    assert said(tmp_path) == {
        "apiVersion": "messaging.knative.dev/v1beta1",
        "kind": "KafkaChannel",
        "metadata": {"namespace": "default", "name": "orders", "uid": "u", "generation": 2},
        "status": {
            "observedGeneration": 2,
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"},
                {"type": "TopicReady", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"},
            ],
            "address": {"url": "http://h"},
        },
    }


def test_only_what_is_new_is_written_and_times_of_transitions_stay(tmp_path: Path) -> None:
    files = StatusFiles(tmp_path)
    assert files.write(status(true("A")), 0.0)
    assert not files.write(status(true("A")), 60.0)
    assert not StatusFiles(tmp_path).write(status(true("A")), 60.0), "the next process knows what was said"
    assert files.write(status(false("A", "Broken", "mend it")), 60.0)
    assert said(tmp_path)["status"]["conditions"][1]["lastTransitionTime"] == "1970-01-01T00:01:00Z"
    assert sorted(path.name for path in (tmp_path / "KafkaChannel").iterdir()) == ["default.orders.json"]


def test_transition_is_logged_once(tmp_path: Path) -> None:
    files = StatusFiles(tmp_path)
    with capture_logs() as lines:
        for _ in range(3):
            files.write(status(false("A", "Broken", "mend it")), 0.0)
        files.write(status(true("A")), 0.0)
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("resource is not ready", "warning"),
        ("resource is ready", "info"),
    ]


@pytest.mark.parametrize(
    ("kind", "api_version"),
    [
        ("KafkaChannel", "messaging.knative.dev/v1beta1"),
        ("Subscription", "messaging.knative.dev/v1"),
        ("Broker", "eventing.knative.dev/v1"),
        ("Trigger", "eventing.knative.dev/v1"),
    ],
)
def test_status_of_each_kind_is_written_and_goes_with_its_object(tmp_path: Path, kind: str, api_version: str) -> None:
    files = StatusFiles(tmp_path)
    files.write(status(true("A"), kind=kind), 0.0)
    path = tmp_path / kind / "default.orders.json"
    assert json.loads(path.read_text())["apiVersion"] == api_version
    files.keep_only([])
    assert not path.exists()


def test_files_go_with_their_objects(tmp_path: Path) -> None:
    files = StatusFiles(tmp_path)
    write_status, two = status(true("A")), status(true("A"), name="stock")
    files.write(write_status, 0.0)
    files.write(two, 0.0)
    files.keep_only([write_status])
    assert [path.name for path in (tmp_path / "KafkaChannel").iterdir()] == ["default.orders.json"]
    assert files.write(two, 0.0)


def test_removed_or_damaged_file_is_written_again(tmp_path: Path) -> None:
    files = StatusFiles(tmp_path)
    files.write(status(true("A")), 0.0)
    path = tmp_path / "KafkaChannel" / "default.orders.json"
    path.unlink()
    assert files.write(status(true("A")), 0.0)
    for broken in (b"{ broken", b"\xff"):
        path.write_bytes(broken)
        assert StatusFiles(tmp_path).write(status(true("A")), 0.0)
        assert said(tmp_path)["kind"] == "KafkaChannel"


def test_problems_are_written_with_line_field_and_hint(tmp_path: Path) -> None:
    files = StatusFiles(tmp_path)
    assert files.write_problems([FileProblem("a.yaml", 3, "spec", "is a list", "write a mapping")])
    reported = json.loads((tmp_path / "problems.json").read_text("utf-8"))["problems"]
    assert reported[0] == {
        "file": "a.yaml",
        "line": 3,
        "field": "spec",
        "what": "is a list",
        "hint": "write a mapping",
        "ignored": False,
        "suspected_typo": False,
        "object": "",
    }
    assert files.write_problems([])
    assert not files.write_problems([])


def test_new_leader_compares_with_the_files_as_they_are_now(tmp_path: Path) -> None:
    """Two processes may have one state directory."""
    first, second = StatusFiles(tmp_path), StatusFiles(tmp_path)
    first.write(status(true("A")), 0.0)
    second.write(status(false("A", "Broken", "mend it")), 0.0)
    first.forget()
    assert first.write(status(true("A")), 0.0), "the file says something else by now"
    assert said(tmp_path)["status"]["conditions"][0]["status"] == "True"


def test_names_of_any_length(tmp_path: Path) -> None:
    """The longest name that an object may have, and another one that differs in its last letter only."""
    files = StatusFiles(tmp_path)
    statuses = [status(true("A"), name="x" * length + end) for length in (200, 230, 240, 252) for end in "yz"]
    files.write_all(statuses, 0.0)
    paths = list((tmp_path / "KafkaChannel").iterdir())
    names = {json.loads(path.read_text("utf-8"))["metadata"]["name"] for path in paths}
    assert names == {write_status.name for write_status in statuses}
    files.keep_only(statuses[1:])
    assert len(list((tmp_path / "KafkaChannel").iterdir())) == len(statuses) - 1


def test_status_that_cannot_be_written_holds_up_no_other(tmp_path: Path) -> None:
    files = StatusFiles(tmp_path)
    (tmp_path / "Subscription").write_text("in the way", "utf-8")
    statuses = [status(true("A"), kind="Subscription", name="billing"), status(true("A"))]
    with capture_logs() as lines:
        files.write_all(statuses, 0.0)
        files.write_all(statuses, 0.0)
    assert said(tmp_path)["kind"] == "KafkaChannel"
    assert [line["resource"] for line in lines if line["log_level"] == "error"] == ["default/billing"]
    (tmp_path / "Subscription").unlink()
    files.write_all(statuses, 0.0)
    assert (tmp_path / "Subscription" / "default.billing.json").exists()


def test_unusable_state_directory_is_rejected(tmp_path: Path) -> None:
    StatusFiles(tmp_path / "a" / "b").check()
    (tmp_path / "file").write_text("", "utf-8")
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match="state directory") as refused:
            StatusFiles(root).check()
        assert "PENSTOCK_STATE_DIR" in refused.value.hint


def test_rejection_is_logged_whether_or_not_the_channel_is_ready(tmp_path: Path) -> None:
    files = StatusFiles(tmp_path)
    differs = true("TopicReady", "TopicDiffers", "Kafka cannot lower them")
    served, waits = true("SubscribersReady"), unknown("SubscribersReady", "SubscriberNotServed", "by nobody")
    files.write(status(true("TopicReady"), served), 0.0)
    with capture_logs() as lines:
        files.write(status(differs, served), 0.0)
        files.write(status(differs, waits), 0.0)
        files.write(status(differs, served), 0.0)
    refusals = [line for line in lines if line["log_level"] == "warning"]
    assert [(line["reason"], line["message"]) for line in refusals] == [("TopicDiffers", "Kafka cannot lower them")]
    files.write(status(true("TopicReady"), waits), 0.0)
    with capture_logs() as lines:
        files.write(status(differs, waits), 0.0)
    assert [line["reason"] for line in lines] == ["TopicDiffers"]
