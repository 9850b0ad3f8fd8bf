"""What the leading controller must remember, as records of the status topic, and whose records count. Pure.

    /leader/7-9f2c                            claim: term 7 has begun, and its records are complete
    /leader/7-9f2c/removal/<uid>              a removal in progress
    /leader/7-9f2c/creation/<uid>             what is created before the resource is published
    /leader/7-9f2c/identity/<kind>/<ns>/<name>    uid and generation that the contract does not have yet
    /leader/7-9f2c/seek/<id>                  a seek in progress, or one that must not be repeated

Each term of leadership writes keys of its own, so a record that a deposed leader sends late overwrites nothing, even
after compaction. A new leader copies the state under its own keys and then writes its claim. The claim with the highest
number counts; of two with the same number, the one that was first in the topic. All other terms are ignored and swept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from knative.contract import kafka_names
from knative.contract.decoding import (
    INTEGER_MAX,
    TIME_MAX_S,
    Check,
    DecodeError,
    Decoder,
    Fields,
    between,
    each,
    integer_at,
    items_at,
    text_at,
)
from knative.contract.seeks import Move, Seek, seek_row

PREFIX = "/leader/"  #: no worker's id has a slash

Row = Mapping[str, Any]
Key = tuple[str, str, str]  #: (kind, namespace, name)


@dataclass(frozen=True, slots=True)
class Removal:
    """What a removed resource leaves in Kafka. Remembered until all of it is deleted."""

    uid: str
    kind: str
    label: str
    topic: str  #: the topic that it owned or read
    group: str = ""
    topics: tuple[str, ...] = ()  #: to be deleted
    since: float = 0.0  #: Unix seconds


@dataclass(frozen=True, slots=True)
class Identity:
    """The uid and generation that a controller gave to a resource from a file. `spec_hash`: of the spec as written."""

    uid: str
    generation: int
    spec_hash: str


@dataclass(frozen=True, slots=True)
class LeaderState:
    """What a leader must remember beyond the contract, so that the next one can continue."""

    removals: Mapping[str, Removal] = field(default_factory=dict)  #: in progress, by uid
    identities: Mapping[Key, Identity] = field(default_factory=dict)  #: those that the contract does not have
    #: by uid: what a removal would have to delete if the resource goes before the contract has it
    creations: Mapping[str, Removal] = field(default_factory=dict)
    seeks: Mapping[str, Seek] = field(default_factory=dict)  #: by id, including those that are over

    def without_removal(self, uid: str) -> LeaderState:
        """Returns the state without this removal."""
        return replace(self, removals={key: removal for key, removal in self.removals.items() if key != uid})

    def with_removal(self, removal: Removal) -> LeaderState:
        """Returns the state with one more removal."""
        return replace(self, removals={**self.removals, removal.uid: removal})

    def with_seek(self, seek: Seek) -> LeaderState:
        """Returns the state with this seek, in place of its former state."""
        return replace(self, seeks={**self.seeks, seek.id: seek})

    def without_seek(self, id_: str) -> LeaderState:
        """Returns the state without this seek."""
        return replace(self, seeks={key: seek for key, seek in self.seeks.items() if key != id_})


@dataclass(frozen=True, slots=True)
class LeaderRow:
    """A record of a leader without its key, for readers that have no use for it."""

    row: Row


@dataclass(frozen=True, slots=True)
class Term:
    """One leadership of one process. The token tells apart two terms that were begun at the same time."""

    number: int
    token: str

    @property
    def key(self) -> str:
        """The key of its claim; the keys of its other records begin with it."""
        return f"{PREFIX}{self.number}-{self.token}"


class UnknownRow(ValueError):
    """A row of a newer version."""


# -- records: key below the term -> row


def rows_of(state: LeaderState) -> dict[str, Row]:
    """Returns the state as rows."""
    rows: dict[str, Row] = {}
    for removal in state.removals.values():
        rows[f"removal/{removal.uid}"] = {"removal": _row_of(removal)}
    for creation in state.creations.values():
        rows[f"creation/{creation.uid}"] = {"creation": _row_of(creation)}
    for key, identity in state.identities.items():
        rows[f"identity/{'/'.join(key)}"] = {"identity": asdict(identity), "key": list(key)}
    for seek in state.seeks.values():
        rows[f"seek/{seek.id}"] = {"seek": seek_row(seek)}
    return rows


def _row_of(removal: Removal) -> Row:
    return {**asdict(removal), "topics": list(removal.topics)}


def difference(before: LeaderState, after: LeaderState) -> dict[str, Row | None]:
    """Returns the rows to write so that the records of `before` become those of `after`; None = remove it."""
    changed = LeaderState(
        {uid: removal for uid, removal in after.removals.items() if before.removals.get(uid) != removal},
        {key: identity for key, identity in after.identities.items() if before.identities.get(key) != identity},
        {uid: removal for uid, removal in after.creations.items() if before.creations.get(uid) != removal},
        {id_: seek for id_, seek in after.seeks.items() if before.seeks.get(id_) != seek},
    )
    gone = LeaderState(
        {uid: removal for uid, removal in before.removals.items() if uid not in after.removals},
        {key: identity for key, identity in before.identities.items() if key not in after.identities},
        {uid: removal for uid, removal in before.creations.items() if uid not in after.creations},
        {id_: seek for id_, seek in before.seeks.items() if id_ not in after.seeks},
    )
    return {**dict.fromkeys(rows_of(gone)), **rows_of(changed)}


def state_of(rows: Mapping[str, Row]) -> LeaderState:
    """Returns the state of rows. Raises UnknownRow for a row of a newer version, DecodeError if one is not valid."""
    removals: dict[str, Removal] = {}
    creations: dict[str, Removal] = {}
    identities: dict[Key, Identity] = {}
    seeks: dict[str, Seek] = {}
    for row in rows.values():
        match read_row(row):
            case "removal", Removal() as removal:
                removals[removal.uid] = removal
            case "creation", Removal() as creation:
                creations[creation.uid] = creation
            case "identity", (key, Identity() as identity):
                identities[key] = identity
            case "seek", Seek() as seek:
                seeks[seek.id] = seek
    return LeaderState(removals, identities, creations, seeks)


def read_row(row: Row) -> tuple[str, Any]:
    """Returns its kind and value. Raises UnknownRow for a row of a newer version, DecodeError if it is not valid."""
    kind = next((kind for kind in ("claim", "removal", "creation", "identity", "seek") if kind in row), "")
    value = row.get(kind)
    if kind == "claim":
        return kind, text_at(value, kind)
    if kind in ("removal", "creation"):
        return kind, _DECODER.read_at(kind, Removal, value)
    if kind == "seek":
        return kind, _DECODER.read_at(kind, Seek, value)
    if kind == "identity":
        key = tuple(text_at(part, "key") for part in items_at(row.get("key"), "key"))
        if len(key) != 3:
            raise DecodeError("key is not a list of three texts")
        return kind, (key, _DECODER.read_at(kind, Identity, value))
    raise UnknownRow(f"the row has none of the known kinds: {', '.join(row)}")


def _name_or_none(problem: Check) -> Check:
    return lambda name: problem(name) if name else None


def _move(value: Any) -> Move:
    numbers = [integer_at(number) for number in items_at(value)]
    if len(numbers) != 3 or numbers[0] < 0 or numbers[2] < 0:
        raise DecodeError(" is not a partition with its old and its new offset")
    return Move(*numbers)


_TIME = between(0, TIME_MAX_S)
_TOPIC, _GROUP = _name_or_none(kafka_names.stored_topic_problem), _name_or_none(kafka_names.stored_group_problem)
_DECODER = Decoder(
    {
        Removal: Fields(
            {
                **{"topic": _TOPIC, "group": _GROUP, "since": _TIME},
                "topics": lambda topics: next(filter(None, map(kafka_names.stored_topic_problem, topics)), None),
            }
        ),
        Seek: Fields({"topic": _TOPIC, "group": _GROUP, "since": _TIME}, {"moves": partial(each, _move)}),
        Identity: Fields({"generation": between(0, INTEGER_MAX)}),
    }
)


def split_key(key: str) -> tuple[Term, str]:
    """Returns the term of a key and the rest, "" for a claim. Raises ValueError if it is not of a leader's record."""
    term, _, rest = key.removeprefix(PREFIX).partition("/")
    number, dash, token = term.partition("-")
    if not key.startswith(PREFIX) or not dash or not number.isdecimal():
        raise ValueError(f"{key!r} is not the key of a leader's record")
    return Term(int(number), token), rest


# -- which term counts


class LeaderLog:
    """The leaders' records of the status topic, applied in topic order."""

    def __init__(self) -> None:
        self._rows: dict[Term, dict[str, Row]] = {}
        self._claims: dict[Term, None] = {}  #: in topic order
        self._unreadable: dict[str, str] = {}

    def apply(self, key: str, row: Row | None) -> bool:
        """Apply one record; None is a tombstone. Returns whether it was a claim. Raises ValueError for a bad key."""
        term, rest = split_key(key)
        self._unreadable.pop(key, None)
        if not rest:
            if row is None:
                self._claims.pop(term, None)
            else:
                self._claims[term] = None
        elif row is not None:
            self._rows.setdefault(term, {})[rest] = row
        elif term in self._rows:
            self._rows[term].pop(rest, None)
            if not self._rows[term]:
                del self._rows[term]
        return not rest

    def unreadable(self, key: str, why: str) -> None:
        """A record cannot be read, so its term cannot be continued. Keys outside `/leader/` are ignored."""
        try:
            split_key(key)
        except ValueError:
            return
        self._unreadable[key] = why

    @property
    def current(self) -> Term | None:
        """The term that counts; None if no leader ever wrote."""
        first: Term | None = None
        for term in self._claims:
            if first is None or term.number > first.number:
                first = term
        return first

    @property
    def next_number(self) -> int:
        """A number that is higher than every number in the topic, including those of terms that were never claimed."""
        return 1 + max((term.number for term in (*self._claims, *self._rows)), default=0)

    def has(self, term: Term) -> bool:
        """Returns whether the claim of this term was read."""
        return term in self._claims

    def state(self) -> LeaderState:
        """Returns the state of the current term. Raises ValueError if a record of it is of a newer version."""
        term = self.current
        for key, why in self._unreadable.items():
            if term is None or split_key(key)[0].number >= term.number:
                raise ValueError(f"{key}: {why}")
        if term is None:
            return LeaderState()
        return state_of(self._rows.get(term, {}))

    def outdated(self, mine: Term) -> list[str]:
        """Returns the keys of all terms that lost against `mine`, to be removed from the topic."""
        keys = [term.key for term in self._claims]
        keys += [f"{term.key}/{rest}" for term, rows in self._rows.items() for rest in rows]
        terms = ((key, split_key(key)[0]) for key in (*keys, *self._unreadable))
        return [key for key, term in terms if term != mine and term.number <= mine.number]
