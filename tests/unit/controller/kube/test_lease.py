"""What a candidate does with a Lease, and that two candidates never have it at the same time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.kube.lease import (
    LeaseView,
    Move,
    lease_object,
    next_move,
    read_lease,
)
from controller.timing import LEASE_S, RENEW_LIMIT_S

MINE = LeaseView("me", LEASE_S, 3, "", "7")
THEIRS = LeaseView("other", LEASE_S, 3, "", "7")


@pytest.mark.parametrize(
    ("lease", "unchanged_s", "expected"),
    [
        (None, 0.0, Move.CREATE),
        (MINE, 0.0, Move.RENEW),
        (MINE, 100.0, Move.RENEW),
        (THEIRS, 0.0, Move.WAIT),
        (THEIRS, 14.9, Move.WAIT),
        (THEIRS, 15.0, Move.TAKE),
        (LeaseView("", 1, 3, "", "7"), 0.0, Move.TAKE),
        (LeaseView("other", 60, 3, "", "7"), 59.0, Move.WAIT),
    ],
)
def test_candidate_moves_as_the_lease_says(lease: LeaseView | None, unchanged_s: float, expected: Move) -> None:
    assert next_move(lease, "me", unchanged_s) is expected


def test_lease_that_is_written_can_be_read() -> None:
    first = lease_object("ns", "penstock-controller", "me", 1_700_000_000.25, None, taken=True)
    assert "resourceVersion" not in first["metadata"]
    assert first["spec"]["acquireTime"] == first["spec"]["renewTime"] == "2023-11-14T22:13:20.250000Z"
    read = read_lease(first)
    assert (read.holder, read.duration_s, read.transitions) == ("me", LEASE_S, 1)
    second = lease_object("ns", "penstock-controller", "me", 1_700_000_002.0, read, taken=False)
    assert second["spec"]["acquireTime"] == first["spec"]["acquireTime"]
    assert second["spec"]["leaseTransitions"] == 1
    released = read_lease(lease_object("ns", "penstock-controller", "", 1_700_000_003.0, read, taken=False))
    assert released.released
    assert next_move(released, "you", 0.0) is Move.TAKE


def test_fields_of_a_lease_may_be_missing() -> None:
    assert read_lease({}) == LeaseView("", LEASE_S, 0, "", "")


@dataclass
class Candidate:
    """What `LeaseElection` does, with a clock of the test's."""

    name: str
    lease: LeaseView | None = None
    seen_s: float = 0.0
    renewed_s: float | None = None
    read: bool = field(default=False)

    def leads(self, now: float) -> bool:
        return self.renewed_s is not None and now - self.renewed_s < RENEW_LIMIT_S

    def look(self, stored: LeaseView | None, now: float) -> None:
        if not self.read or self.lease is None or stored is None or stored.version != self.lease.version:
            self.seen_s = now
        self.lease, self.read = stored, True

    def step(self, stored: LeaseView | None, now: float) -> dict[str, Any] | None:
        """What it writes, from what it read."""
        if not self.read:
            return None
        move = next_move(self.lease, self.name, now - self.seen_s)
        if move is Move.WAIT:
            self.renewed_s = None
            return None
        return lease_object("ns", "l", self.name, now, self.lease, taken=move is not Move.RENEW)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["look", "write"]), st.integers(0, 9)), max_size=80))
def test_of_two_candidates_one_leads_at_most(steps: list[tuple[str, str, int]]) -> None:
    """Between its look and its write, a candidate may be stopped for any time."""
    now, version, stored = 0.0, 0, None
    both = {"a": Candidate("a"), "b": Candidate("b")}
    for name, what, pause in steps:
        now += pause
        candidate = both[name]
        if what == "look":
            candidate.look(stored, now)
        else:
            body = candidate.step(stored, now)
            if body is not None:
                seen = body["metadata"].get("resourceVersion")
                fits = seen == stored.version if stored is not None else seen is None
                if fits:
                    version += 1
                    body["metadata"]["resourceVersion"] = str(version)
                    stored = read_lease(body)
                    candidate.look(stored, now)
                    candidate.renewed_s = now
        assert not (both["a"].leads(now) and both["b"].leads(now))
