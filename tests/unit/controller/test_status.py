"""Status files: whole, only when something is new, gone with their object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from controller.actions import Removal, WriteStatus
from controller.directory import FileProblem
from controller.status import StatusFiles
from knative.conditions import Condition, false, ready, true


def status(*parts: Condition, name: str = "orders", **body: Any) -> WriteStatus:
    return WriteStatus("KafkaChannel", "default", name, "u", 2, (ready(parts), *parts), body)


def said(root: Path, name: str = "orders") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / "KafkaChannel" / f"default.{name}.json").read_text("utf-8"))
    return found


def test_the_shape_of_a_status(tmp_path: Path) -> None:
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


def test_a_transition_is_logged_once(tmp_path: Path) -> None:
    files = StatusFiles(tmp_path)
    with capture_logs() as lines:
        for _ in range(3):
            files.write(status(false("A", "Broken", "mend it")), 0.0)
        files.write(status(true("A")), 0.0)
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("resource is not ready", "warning"),
        ("resource is ready", "info"),
    ]


def test_files_go_with_their_objects(tmp_path: Path) -> None:
    files = StatusFiles(tmp_path)
    one, two = status(true("A")), status(true("A"), name="stock")
    files.write(one, 0.0)
    files.write(two, 0.0)
    files.keep_only([one])
    assert [path.name for path in (tmp_path / "KafkaChannel").iterdir()] == ["default.orders.json"]
    assert files.write(two, 0.0)


def test_a_file_that_somebody_removed_or_broke_is_written_anew(tmp_path: Path) -> None:
    files = StatusFiles(tmp_path)
    files.write(status(true("A")), 0.0)
    path = tmp_path / "KafkaChannel" / "default.orders.json"
    path.unlink()
    assert files.write(status(true("A")), 0.0)
    path.write_text("{ broken", "utf-8")
    assert StatusFiles(tmp_path).write(status(true("A")), 0.0)
    assert said(tmp_path)["kind"] == "KafkaChannel"


def test_problems(tmp_path: Path) -> None:
    files = StatusFiles(tmp_path)
    assert files.write_problems([FileProblem("a.yaml", 3, "spec", "is a list", "write a mapping")])
    told = json.loads((tmp_path / "problems.json").read_text("utf-8"))["problems"]
    assert told[0] == {
        "file": "a.yaml",
        "line": 3,
        "field": "spec",
        "what": "is a list",
        "cure": "write a mapping",
        "ignored": False,
    }
    assert files.write_problems([])
    assert not files.write_problems([])


def test_notes_of_removals_outlive_the_process(tmp_path: Path) -> None:
    removal = Removal("u", "KafkaChannel", "default/orders", "t", topics=("t", "t.dlq"), since=1.5)
    assert StatusFiles(tmp_path).load_removals() == {}
    StatusFiles(tmp_path).save_removals({"u": removal})
    assert StatusFiles(tmp_path).load_removals() == {"u": removal}
    (tmp_path / "removals.json").write_text('{"removals": [{"other": 1}]}', "utf-8")
    with capture_logs() as lines:
        assert StatusFiles(tmp_path).load_removals() == {}
    assert lines[0]["log_level"] == "error"
