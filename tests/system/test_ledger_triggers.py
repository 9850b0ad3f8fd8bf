"""The main proof for Triggers: 20,000 events of eight types, twelve filters, and each Trigger gets its own events only.

    load --> worker `all` --> the broker's topic --> 12 Triggers on both workers --> sink (random 500s)
                                                       ^ the dispatcher: SIGKILL and start twice, SIGSTOP for longer
                                                         than its session, SIGCONT

What a Trigger should get is said here a second time, as a function over what was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.installation import Installation
from tests.support.ledger.checker import Verdict, check
from tests.support.ledger.facts import Fact, Received, Sent
from tests.support.ledger.history import delivered
from tests.support.processes import LoadProcess, SinkProcess
from tests.support.resources import NAMESPACE, ORDERS, Wanted
from tests.system.worker_faults import WorkerFaults

pytestmark = pytest.mark.system

EVENTS_MIN, EVENTS_MAX = 4_000, 20_000  # the load stops after the last fault
KEYS, PARTITIONS, SEED = 500, 6, 20_261_122
COPIES = 3  #: the filters let more than these through
DELIVERY = {"retry": 8, "backoffPolicy": "linear", "backoffDelay": "PT0.05S"}
KILLS = 2
TYPES = (
    "order.created",
    "order.paid",
    "order.cancelled",
    "invoice.created",
    "invoice.paid",
    "user.created",
    "user.deleted",
    "audit.login",
)
ORDERED, KEYED, UNORDERED = ORDERS


@dataclass(frozen=True, slots=True)
class Row:
    """One Trigger: its filter as people write it, and which events that means."""

    name: str
    order: str
    filter: dict[str, Any]
    wants: Callable[[Sent], bool]


def _filters(*filters: dict[str, Any]) -> dict[str, Any]:
    return {"filters": list(filters)}


ROWS = [
    Row("everything", ORDERED, {}, lambda sent: True),
    Row("never", KEYED, _filters({"exact": {"type": "order.lost"}}), lambda sent: False),
    Row("exact", UNORDERED, _filters({"exact": {"type": "order.paid"}}), lambda sent: sent.type == "order.paid"),
    Row("prefix", ORDERED, _filters({"prefix": {"type": "order."}}), lambda sent: sent.type.startswith("order.")),
    Row("suffix", KEYED, _filters({"suffix": {"type": ".created"}}), lambda sent: sent.type.endswith(".created")),
    Row(
        "any",
        UNORDERED,
        _filters({"any": [{"exact": {"type": "user.deleted"}}, {"exact": {"type": "audit.login"}}]}),
        lambda sent: sent.type in ("user.deleted", "audit.login"),
    ),
    Row(
        "not",
        ORDERED,
        _filters({"not": {"any": [{"prefix": {"type": "order."}}, {"prefix": {"type": "invoice."}}]}}),
        lambda sent: sent.type.split(".")[0] in ("user", "audit"),
    ),
    Row(
        "all",
        KEYED,
        _filters({"all": [{"prefix": {"type": "order."}}, {"not": {"suffix": {"type": ".created"}}}]}),
        lambda sent: sent.type in ("order.paid", "order.cancelled"),
    ),
    Row(
        "list",
        UNORDERED,
        _filters({"suffix": {"type": ".created"}}, {"not": {"exact": {"type": "user.created"}}}),
        lambda sent: sent.type in ("order.created", "invoice.created"),
    ),
    Row(
        "cesql-type",
        ORDERED,
        _filters({"cesql": "type LIKE 'invoice.%' OR type IN ('user.created', 'nothing')"}),
        lambda sent: sent.type in ("invoice.created", "invoice.paid", "user.created"),
    ),
    Row(
        "cesql-key",
        KEYED,
        _filters({"cesql": "EXISTS partitionkey AND INT(SUBSTRING(partitionkey, 2)) % 5 = 0"}),
        lambda sent: sent.key is not None and int(sent.key[1:]) % 5 == 0,
    ),
    Row(
        "attributes",
        UNORDERED,
        {"filter": {"attributes": {"type": "user.created", "source": ""}}},
        lambda sent: sent.type == "user.created",
    ),
]


def _run(kafka: EmbeddedKafka, folder: Path) -> tuple[int, list[Fact], Verdict]:
    installation = Installation(kafka.bootstrap, folder, PARTITIONS, is_broker=True)
    paths = {row.name: f"{NAMESPACE}/{row.name}" for row in ROWS}
    behaviours = dict.fromkeys(paths.values(), f"fail_chance=0.05,delay_s=0.002,seed={SEED}")
    with SinkProcess(folder, behaviours, folder / "received") as sink:
        specs = [Wanted(row.name, sink.url(paths[row.name]), row.order, DELIVERY, filter=row.filter) for row in ROWS]
        installation.write(specs)
        faults = WorkerFaults(installation, sink, EVENTS_MAX * COPIES, SEED)
        with installation.worker() as first:
            first.wait_ready()
            installation.wait_triggers(paths)
            options = {"events": EVENTS_MAX, "keys": KEYS, "rate": 100, "seed": SEED, "types": ",".join(TYPES)}
            url, ledger = installation.url(first), folder / "sent"
            with LoadProcess(folder, url, **options, sequential=True, ledger=ledger) as load:
                for _ in range(KILLS):
                    with faults.join() as second:
                        faults.kill(second)
                with faults.join() as last:
                    faults.freeze(last)
                    events = faults.enough(load, EVENTS_MIN * COPIES)
                    installation.wait_settled(paths, 600)
                    rss_bytes = max(first.most_rss_bytes(), last.most_rss_bytes())
                    faults.end(last)
                faults.end(first)
        assert sink.terminate() == 0
        facts = faults.facts(list(paths))
        rules = [installation.rule(subscription, row.wants) for subscription, row in zip(specs, ROWS, strict=True)]
        return events, facts, check(facts, rules, max_rss_bytes=rss_bytes)


def test_each_trigger_gets_exactly_the_events_that_pass(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Lost 0, unwanted 0, order violations 0; duplicates only around kills; all groups at the end of the topic."""
    events, facts, verdict = _run(kafka, tmp_path)
    print(verdict)
    assert verdict.violations == (), str(verdict)
    report = verdict.report
    assert (report.events, report.subscriptions, report.partitions) == (events, len(ROWS), PARTITIONS)
    assert report.faults == {"kill": KILLS, "freeze": 1, "join": KILLS + 1, "term": 2}
    sent = [fact for fact in facts if isinstance(fact, Sent)]
    assert {fact.type for fact in sent} == set(TYPES)
    owed = {row.name: {fact.id for fact in sent if row.wants(fact)} for row in ROWS}
    got: dict[str, set[str]] = {row.name: set() for row in ROWS}
    for fact in facts:
        if isinstance(fact, Received) and delivered(fact):
            got[fact.subscription.removeprefix(f"{NAMESPACE}/")].add(fact.id)
    assert got == owed
    assert report.dead_letters == 0  # theirs have another label than the rules, which the checker would not match
    assert (len(owed["everything"]), len(owed["never"])) == (events, 0)
    assert min(len(ids) for name, ids in owed.items() if name != "never") > events // 20
