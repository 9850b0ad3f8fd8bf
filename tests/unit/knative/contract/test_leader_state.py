"""What a leader must remember: rows and back, and which leader's records count, whatever arrives late."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.contract.codec import leader_row_of, record_of_leader, record_of_request, status_of
from knative.contract.decoding import DecodeError
from knative.contract.leader_state import (
    Identity,
    LeaderLog,
    LeaderRow,
    LeaderState,
    Removal,
    Row,
    Term,
    difference,
    rows_of,
    split_key,
    state_of,
)
from knative.contract.seeks import Move, Seek, SeekPhase, SeekRequest

SEEK = Seek(
    "r",
    "default/again",
    *("Subscription", "default", "billing"),
    "earliest",
    SeekPhase.MOVING,
    2.5,
    *("u", "t", "kafka.u"),
    (Move(0, -1, 0), Move(1, 7, 3)),
)
REMOVAL = Removal("u", "KafkaChannel", "default/orders", "t", topics=("t", "t.dlq"), since=1.5)
STATE = LeaderState(
    {"u": REMOVAL},
    {("Subscription", "default", "billing"): Identity("i", 2, "h")},
    {"n": Removal("n", "Subscription", "default/new", "t", group="kafka.n")},
    {"r": SEEK},
)

_uids = st.sampled_from(["a", "b", "c"])
_removals = st.builds(Removal, uid=_uids, kind=st.just("Subscription"), label=_uids, topic=_uids, group=_uids)
_keys = st.tuples(st.just("KafkaChannel"), st.just("default"), _uids)
states = st.builds(
    LeaderState,
    st.lists(_removals).map(lambda removals: {removal.uid: removal for removal in removals}),
    st.dictionaries(_keys, st.builds(Identity, _uids, st.integers(1, 3), _uids)),
    st.lists(_removals).map(lambda removals: {removal.uid: removal for removal in removals}),
    st.lists(st.builds(replace, st.just(SEEK), id=_uids, phase=st.sampled_from(SeekPhase), uid=_uids)).map(
        lambda items: {item.id: item for item in items}
    ),
)


def test_form_of_the_rows() -> None:
    """Other versions read them."""
    removal = {
        "uid": "u",
        "kind": "KafkaChannel",
        "label": "default/orders",
        "topic": "t",
        "group": "",
        "topics": ["t", "t.dlq"],
        "since": 1.5,
    }
    creation = {"uid": "n", "kind": "Subscription", "label": "default/new", "topic": "t", "group": "kafka.n"}
    assert rows_of(STATE) == {
        "creation/n": {"creation": {**creation, "topics": [], "since": 0.0}},
        "removal/u": {"removal": removal},
        "identity/Subscription/default/billing": {
            "identity": {"uid": "i", "generation": 2, "spec_hash": "h"},
            "key": ["Subscription", "default", "billing"],
        },
        "seek/r": {
            "seek": {
                "id": "r",
                "reset": "default/again",
                "kind": "Subscription",
                "namespace": "default",
                "name": "billing",
                "to": "earliest",
                "phase": "moving",
                "since": 2.5,
                "uid": "u",
                "topic": "t",
                "group": "kafka.u",
                "moves": [[0, -1, 0], [1, 7, 3]],
                "reason": "",
                "message": "",
            }
        },
    }
    record = record_of_leader({"claim": "a"})
    assert record == {"schema": 1, "leader": {"claim": "a"}}
    assert status_of(record) == LeaderRow({"claim": "a"}), "readers that have no use for it"


@given(states)
def test_state_survives_its_rows(state: LeaderState) -> None:
    assert state_of({key: leader_row_of(record_of_leader(row)) for key, row in rows_of(state).items()}) == state


@given(states, states)
def test_difference_turns_one_state_into_the_other(before: LeaderState, after: LeaderState) -> None:
    rows: dict[str, Row] = dict(rows_of(before))
    changes = difference(before, after)
    for key, row in changes.items():
        assert rows.get(key) != row, "nothing is written that is there"
        if row is None:
            del rows[key]
        else:
            rows[key] = row
    assert rows == rows_of(after)


@pytest.mark.parametrize("record", [{}, {"schema": 2, "leader": {}}, {"schema": 1}, {"schema": 1, "leader": []}])
def test_record_that_is_not_valid_is_rejected(record: object) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        leader_row_of(record)


def test_request_comes_back_from_its_record() -> None:
    request = SeekRequest("q", "Trigger", "default", "billing", "-3", 4.5)
    row = {"id": "q", "kind": "Trigger", "namespace": "default", "name": "billing", "to": "-3", "time": 4.5}
    assert record_of_request(request) == {"schema": 1, "seek": row}
    assert status_of(record_of_request(request)) == request
    with pytest.raises(DecodeError, match=r"seek\.id is missing"):
        status_of({"schema": 1, "seek": {}})


def test_row_of_an_unknown_kind_is_rejected() -> None:
    with pytest.raises(ValueError, match="known kinds"):
        state_of({"x/y": {"x": "y"}})


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("/leader/7-ab", (Term(7, "ab"), "")),
        ("/leader/7-ab/removal/u", (Term(7, "ab"), "removal/u")),
        ("/leader/7-ab/identity/k/ns/n", (Term(7, "ab"), "identity/k/ns/n")),
    ],
)
def test_key_is_split_into_term_and_row(key: str, parts: tuple[Term, str]) -> None:
    assert split_key(key) == parts


@pytest.mark.parametrize("key", ["/leader/", "/leader/x-y", "/leader/7", "/controller", "worker-1", "/leader/-1-a"])
def test_key_that_is_no_leaders(key: str) -> None:
    with pytest.raises(ValueError, match="not the key"):
        split_key(key)


def _log(*records: tuple[str, Row | None]) -> LeaderLog:
    log = LeaderLog()
    for key, row in records:
        log.apply(key, row)
    return log


CLAIM: Row = {"claim": "a"}
REMOVED: Row = {"removal": {"uid": "f", "kind": "KafkaChannel", "label": "default/f", "topic": "t"}}


@pytest.mark.parametrize(
    ("records", "current", "removals", "number"),
    [
        ([], None, set(), 1),
        ([("/leader/1-a/removal/f", REMOVED)], None, set(), 2),
        ([("/leader/1-a/removal/f", REMOVED), ("/leader/1-a", CLAIM)], Term(1, "a"), {"f"}, 2),
        ([("/leader/1-a", CLAIM), ("/leader/2-b/removal/f", REMOVED)], Term(1, "a"), set(), 3),
        ([("/leader/2-b", CLAIM), ("/leader/1-a/removal/f", REMOVED), ("/leader/1-a", CLAIM)], Term(2, "b"), set(), 3),
        ([("/leader/2-b", CLAIM), ("/leader/2-a/removal/f", REMOVED), ("/leader/2-a", CLAIM)], Term(2, "b"), set(), 3),
        ([("/leader/9-a", CLAIM), ("/leader/10-b", CLAIM)], Term(10, "b"), set(), 11),
        ([("/leader/2-b", CLAIM), ("/leader/1-a", CLAIM), ("/leader/2-b", None)], Term(1, "a"), set(), 2),
    ],
)
def test_which_term_counts(
    records: list[tuple[str, Row | None]], current: Term | None, removals: set[str], number: int
) -> None:
    log = _log(*records)
    assert (log.current, set(log.state().removals), log.next_number) == (current, removals, number)


def test_what_lost_is_swept_and_what_may_win_is_not() -> None:
    log = _log(
        ("/leader/1-a/removal/f", REMOVED),
        ("/leader/1-a", CLAIM),
        ("/leader/2-b", CLAIM),
        ("/leader/2-c/removal/f", REMOVED),
        ("/leader/3-d/removal/f", REMOVED),
    )
    mine = Term(2, "b")
    lost = log.outdated(mine)
    assert sorted(lost) == ["/leader/1-a", "/leader/1-a/removal/f", "/leader/2-c/removal/f"]
    for key in lost:
        log.apply(key, None)
    assert (log.current, log.outdated(mine), log.next_number) == (mine, [], 4)


def test_record_of_a_newer_version_stops_a_new_leader_unless_its_term_is_over() -> None:
    log = _log(("/leader/2-b", CLAIM))
    log.unreadable("/leader/1-a/removal/f", "newer")
    log.unreadable("/leader/x", "newer")
    assert log.state() == LeaderState()
    assert log.outdated(Term(2, "b")) == ["/leader/1-a/removal/f"]
    for key in ("/leader/2-b/removal/u", "/leader/3-c"):
        log.unreadable(key, "newer")
        with pytest.raises(ValueError, match=f"{key}: newer"):
            log.state()
        log.apply(key, None)
        assert log.state() == LeaderState()


def test_row_that_is_not_valid_stops_a_new_leader() -> None:
    log = _log(("/leader/2-b", CLAIM), ("/leader/2-b/removal/u", {"removal": {"uid": "u"}}))
    with pytest.raises(DecodeError, match=r"removal\.kind is missing"):
        log.state()


# -- leaders come and go: what was acknowledged is there, and what arrives late changes nothing


@dataclass
class _Topic:
    """A compacted topic."""

    records: list[tuple[str, Row | None]] = field(default_factory=list)

    def read(self) -> LeaderLog:
        return _log(*self.records)

    def compact(self, until: int) -> None:
        """Keep only the last record of each key, among the first `until`; tombstones go as well."""
        last = {key: at for at, (key, _) in enumerate(self.records)}
        self.records = [
            (key, row)
            for at, (key, row) in enumerate(self.records)
            if at >= until or (last[key] == at and row is not None)
        ]


@dataclass
class _Leader:
    """Sends what the store sends, one record at a time, so that a test can stop it between any two."""

    topic: _Topic
    token: str
    state: LeaderState = field(init=False)
    term: Term = field(init=False)
    unsent: list[tuple[str, Row | None]] = field(init=False)

    def __post_init__(self) -> None:
        log = self.topic.read()
        self.state = log.state()
        self.term = Term(log.next_number, self.token)
        self.unsent = [(f"{self.term.key}/{rest}", row) for rest, row in rows_of(self.state).items()]
        self.unsent.append((self.term.key, CLAIM))

    def plan(self, state: LeaderState) -> None:
        self.unsent += [(f"{self.term.key}/{rest}", row) for rest, row in difference(self.state, state).items()]
        self.state = state

    def plan_sweep(self) -> None:
        self.unsent += [(key, None) for key in self.topic.read().outdated(self.term)]

    def send(self, count: int) -> None:
        self.topic.records += self.unsent[:count]
        del self.unsent[:count]


@given(st.data())
def test_next_leader_has_what_the_last_one_recorded(data: st.DataObject) -> None:
    """Leaders are stopped between any two records, and one record of each arrives at any later time. The topic is
    compacted at any time, up to any record."""
    topic = _Topic()
    late: list[tuple[str, Row | None]] = []
    recorded = LeaderState()

    def disturb() -> None:
        # While its term counts, a record that was not acknowledged may count or not. So it arrives after that.
        current = topic.read().current
        due = [record for record in late if not record[0].startswith(f"{current.key}/" if current else "-")]
        if len(due) > 0 and data.draw(st.booleans(), "a late record"):
            record = due[data.draw(st.integers(0, len(due) - 1))]
            late.remove(record)
            topic.records.append(record)
        if data.draw(st.booleans(), "compaction"):
            topic.compact(data.draw(st.integers(0, len(topic.records))))
        assert topic.read().state() == recorded

    for number in range(data.draw(st.integers(1, 6), "leaders")):
        leader = _Leader(topic, f"t{number}")
        disturb()
        leader.send(data.draw(st.sampled_from([0, 1, 2, 99]), "records of the claim"))
        disturb()
        if not leader.unsent and topic.read().current == leader.term:
            for _ in range(data.draw(st.integers(0, 3), "changes")):
                leader.plan(data.draw(states))
                if data.draw(st.booleans(), "stopped"):
                    break
                leader.send(len(leader.unsent))
                recorded = leader.state
                disturb()
            else:
                leader.plan_sweep()
                leader.send(data.draw(st.sampled_from([0, 1, 99]), "swept"))
                disturb()
        late += leader.unsent[:1]
