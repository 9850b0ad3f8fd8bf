"""What the controller says in the status topic: what it cannot take, once; and who is long gone, by its own clock."""

from __future__ import annotations

import pytest

from controller.model import FileProblem, Trouble
from controller.plan.actions import WriteStatus
from controller.status.problems import refused_writes
from controller.status.reporter import (
    REQUEST_LIVES_S,
    SILENT_S,
    StatusReporter,
    fitting,
    fitting_types,
    resource_problems,
)
from knative.contract.records import ResourceProblem, WorkerStatus
from knative.contract.seeks import Seek, SeekPhase, SeekRequest
from knative.ports import ProduceProblem
from knative.resources.brokers import NOT_OUR_CLASS
from knative.resources.conditions import Condition, false, ready, true, unknown
from tables.kafka.compacted_topic import Record
from tables.status_parts import encode_status
from tables.status_table import FRESH_S, REPORT_KEY, SEEK_KEY, StatusTable, encode_request
from tests.support.fakes import MemoryProduce

PROBLEM = FileProblem("a.yaml", 4, "spec.numPartitions", "'x' is no whole number", "write one from 1")
REFUSED = false("TopicReady", "TopicConflict", "the topic belongs to another; rename one")


def _status(*parts: Condition, name: str = "orders", kind: str = "KafkaChannel") -> WriteStatus:
    return WriteStatus(kind, "ns", name, "u", 1, (ready(parts), *parts), {})


@pytest.mark.parametrize(
    ("parts", "reported"),
    [
        ([true("TopicReady"), true("DeadLetterSinkResolved", "DeadLetterTopicUsed", "they go to t.dlq")], None),
        ([REFUSED, true("Addressable")], ("False", "TopicConflict")),
        ([unknown("TopicReady", "TopicBeingCreated", "asked"), false("Addressable", "HostTaken", "m")],
         ("False", "HostTaken")),
        ([true("TopicReady"), unknown("SubscribersReady", "SubscriberNotServed", "m")], None),
        ([true("TopicReady", "TopicDiffers", "m"), false("SubscribersReady", "SubscriberFailed", "m")],
         ("True", "TopicDiffers")),
        ([true("TopicReady"), true("SubscribersReady", "GhostSubscribers", "m")], ("True", "GhostSubscribers")),
    ],
)  # fmt: skip
def test_problem_of_an_object_has_its_worst_condition(parts: list[Condition], reported: tuple[str, str] | None) -> None:
    reasons = [
        (resource_problem.ready, resource_problem.reason)
        for resource_problem in resource_problems([_status(*parts)], [])
    ]
    assert reasons == ([] if reported is None else [reported])


def test_problem_has_each_condition_that_people_should_know() -> None:
    waits = unknown("AddedToChannel", "TopicConflict", "waits")
    (problem,) = resource_problems([_status(true("Addressable"), REFUSED, waits)], [])
    assert [part[:3] for part in problem.parts] == [
        (REFUSED.type, "False", "TopicConflict"),
        ("AddedToChannel", "Unknown", "TopicConflict"),
    ]


def test_object_whose_changes_are_not_seen_is_a_problem() -> None:
    conditions = (true("Ready", "WatchForbidden", "m"), true("TopicReady"))
    (problem,) = resource_problems([WriteStatus("KafkaChannel", "ns", "orders", "u", 1, conditions, {})], [])
    assert (problem.ready, problem.reason, problem.message) == ("True", "WatchForbidden", "m")


def test_channel_without_its_service_is_a_problem() -> None:
    conditions = (
        true("Ready", "ServiceNotWritten", "m"),
        true("TopicReady"),
        true("Addressable", "ServiceNotWritten", "m"),
    )
    (problem,) = resource_problems([WriteStatus("KafkaChannel", "ns", "orders", "u", 1, conditions, {})], [])
    assert (problem.ready, problem.reason, problem.message) == ("True", "ServiceNotWritten", "m")


def test_writes_that_are_refused_are_one_problem_for_all_objects_of_a_kind() -> None:
    channels = [Trouble("status", f"KafkaChannel ns/{name}", since, "403") for name, since in (("b", 2.0), ("a", 1.0))]
    others = [Trouble("finalizer", "Trigger ns/t", 3.0, "403"), Trouble("watch", "/apis/x", 0.0, "500")]
    problems = [(problem.file, problem.what) for problem in refused_writes([*channels, *others])]
    assert problems == [
        ("cluster finalizer of Trigger", "of Trigger ns/t cannot be written (since 1970-01-01T00:00:03Z): 403"),
        (
            "cluster status of KafkaChannel",
            "of KafkaChannel ns/a and 1 more cannot be written (since 1970-01-01T00:00:01Z): 403",
        ),
    ]


def test_what_is_left_alone_is_reported() -> None:
    left = WriteStatus("Trigger", "ns", "bill", "u", 1, (unknown("Ready", NOT_OUR_CLASS, "it is left alone"),), {})
    assert resource_problems([left], []) == [
        ResourceProblem("Trigger", "ns", "bill", "Unknown", "NotOurClass", "it is left alone")
    ]


def test_problems_of_files_and_objects_begin_with_the_worst() -> None:
    ignored = FileProblem("b.yaml", 1, "kind", "a Deployment is not served here", "move it", ignored=True)
    differs = _status(true("TopicReady", "TopicDiffers", "m"), name="a")
    suspected_typo = FileProblem(
        "c.yaml", 1, "kind", "a Subscripton is not served here", "mend it", ignored=True, suspected_typo=True
    )
    gone = FileProblem(".", 0, "", "gone", "restore it")
    problems = resource_problems([differs, _status(REFUSED)], [PROBLEM, ignored, suspected_typo, gone])
    assert [
        (resource_problem.kind, resource_problem.name, resource_problem.ready, resource_problem.message)
        for resource_problem in problems
    ] == [
        ("File", ".", "False", "gone; restore it"),
        ("File", "a.yaml:4", "False", "spec.numPartitions: 'x' is no whole number; write one from 1"),
        ("File", "c.yaml:1", "False", "kind: a Subscripton is not served here; mend it"),
        ("KafkaChannel", "orders", "False", "the topic belongs to another; rename one"),
        ("File", "b.yaml:1", "True", "kind: a Deployment is not served here; move it"),
        ("KafkaChannel", "a", "True", "m"),
    ]


def test_note_is_not_a_rejection() -> None:
    (problem,) = resource_problems([], [], [FileProblem(".", 0, "", "what was served before stays", "name it anew")])
    assert (problem.kind, problem.name, problem.ready) == ("File", ".", "True")
    assert problem.message == "what was served before stays; name it anew"


def test_problems_beyond_one_record_are_counted() -> None:
    problems = [ResourceProblem("KafkaChannel", "ns", f"c{number}", "False", "R", "m" * 100) for number in range(50)]
    kept, left_out = fitting(problems, 2_000)
    assert kept == tuple(problems[: len(kept)])
    assert 5 < len(kept) < 20
    assert len(kept) + left_out == 50
    assert fitting(problems) == (tuple(problems), 0)


def test_declared_types_of_a_channel_are_reported_all_or_none() -> None:
    declared = {"ns/a": ("x", "y"), "ns/b": tuple(f"type-{number}" for number in range(100)), "ns/broker:c": ("z",)}
    size = len(b'{"ns/a":["x","y"]}{"ns/broker:c":["z"]}')

    assert fitting_types(declared, size) == ({"ns/a": ("x", "y"), "ns/broker:c": ("z",)}, size)
    assert fitting_types(declared, size - 1)[0] == {"ns/a": ("x", "y")}
    assert fitting_types(declared)[0] == declared


class _Topic:
    """A status topic that is read back at once."""

    def __init__(self) -> None:
        self.produce = MemoryProduce()
        self.table = StatusTable("t", {}, crashed=lambda _: None)
        self.table.loaded = True
        self.teller = StatusReporter(self.produce, self.table, "t")

    def read(self) -> list[bytes | None]:
        """The keys of what was written, taken into the table."""
        written, self.produce.records = self.produce.records, []
        self.table.apply([Record(record.key or b"", record.value) for record in written])
        return [record.key for record in written]

    def hear(self, worker: str, moment: float) -> None:
        self.table.apply([Record(worker.encode(), encode_status(WorkerStatus(worker, moment, "all")))])


def test_problem_is_logged_once_and_again_when_it_changes() -> None:
    topic = _Topic()
    topic.table.loaded = False
    topic.teller.report([], [])
    assert topic.read() == [], "before the topic is read nobody knows what it says"
    topic.table.loaded = True
    for statuses, writes in (([], 1), ([], 0), ([_status(REFUSED)], 1), ([_status(REFUSED)], 0), ([], 1)):
        topic.teller.report(statuses, [])
        assert topic.read() == [REPORT_KEY] * writes
    topic.produce.failing = ProduceProblem.UNAVAILABLE
    topic.teller.report([], [PROBLEM])
    topic.produce.failing = None
    topic.teller.report([], [PROBLEM])
    assert topic.read() == [REPORT_KEY]
    assert topic.table.report is not None
    assert [problem.kind for problem in topic.table.report.problems] == ["File"]


def test_silent_worker_is_forgotten_whatever_its_clock_says() -> None:
    topic = _Topic()
    topic.hear("killed", 1e9)
    topic.hear("alive", 5.0)
    for now in (0.0, SILENT_S / 2, SILENT_S - 1):
        topic.hear("alive", now)
        topic.teller.sweep(now)
    assert topic.read() == []
    topic.teller.sweep(SILENT_S)
    assert topic.read() == [b"killed"]
    assert set(topic.table.workers) == {"alive"}
    topic.hear("killed", 2e9)  # it was only away
    topic.teller.sweep(SILENT_S + 1)
    assert topic.read() == []


def test_worker_is_silent_when_its_record_does_not_change_whatever_its_clock_says() -> None:
    topic = _Topic()
    topic.hear("killed", 1e9)
    topic.hear("alive", 5.0)
    assert topic.teller.silent(0.0) == frozenset()
    topic.hear("alive", 6.0)
    assert topic.teller.silent(FRESH_S - 0.1) == frozenset()
    assert topic.teller.silent(FRESH_S) == {"killed"}
    topic.hear("killed", 2e9)
    assert topic.teller.silent(FRESH_S) == frozenset(), "it was only away"


def test_worker_is_silent_only_after_its_session() -> None:
    topic = _Topic()
    teller = StatusReporter(topic.produce, topic.table, "status", silent_s=48.0)
    topic.hear("frozen", 5.0)
    assert teller.silent(0.0) == teller.silent(47.9) == frozenset()
    assert teller.silent(48.0) == {"frozen"}


def test_seek_is_not_begun_when_its_command_has_given_up() -> None:
    topic = _Topic()
    ref = ("Subscription", "ns", "billing")
    old, new, begun = (
        SeekRequest(name, *ref, "latest", time) for name, time in (("old", 0.0), ("new", 200.0), ("begun", 0.0))
    )
    topic.table.apply([Record(*encode_request(request)) for request in (old, new, begun)])
    now = REQUEST_LIVES_S + 1
    seeks = {"begun": Seek("begun", "", *ref, "latest", SeekPhase.STOPPING, 0.0)}
    assert {seek_request.id for seek_request in topic.teller.seek_requests(seeks, now)} == {"new", "begun"}
    topic.teller.drop_seek_requests(seeks, now)
    assert topic.read() == [SEEK_KEY + b"old"]
    seeks = {"begun": Seek("begun", "", *ref, "latest", SeekPhase.DONE, 0.0)}
    topic.teller.drop_seek_requests(seeks, now)
    assert topic.read() == [SEEK_KEY + b"begun"]
    assert topic.table.seek_requests == {"new": new}
