"""Reads contract, statuses and traffic from Kafka and from the tables of the traffic job, for the topology.

    traffic tables that reach to the end of the window   ->  tier windows
    else the topic of the deltas                         ->  tier deltas
    else the statuses of the workers                     ->  tier status, or none

It joins no group and sends no request to a worker, so it works while no worker runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analytics.topology.model.document import Tier, Window
from analytics.topology.model.inputs import Inputs, State, Summing, Traffic
from app.operations.contract_snapshot import Contract, check_known, read_contract
from knative.contract.kafka_names import traffic_topic
from knative.contract.subscription_stats import LastError
from knative.errors import SHOWN_CHARS, PenstockError
from knative.traffic.delta import BadDeltaError, decode
from tables.kafka.topic_reader import NoSuchTopicError, TopicReader
from tables.status_table import FRESH_S, subscriber_details
from tables.subscriber_details import SubscriberDetails

STALE_S = 300.0  #: tables that end earlier than this before the end of the window are not used


@dataclass(frozen=True, slots=True)
class TopologyQuery:
    """What to read. Times in Unix seconds; `tier` None: the best one that has data."""

    client: Mapping[str, Any]
    instance: str
    now: float
    since: float
    until: float
    namespace: str = ""
    folder: Path = Path(".penstock/traffic")
    tier: Tier | None = None


def read_inputs(query: TopologyQuery) -> Inputs:
    """Read everything for one report. Raises NotReadyError when Kafka does not answer, PenstockError for missing
    data."""
    contract = read_contract(query.client, query.instance)
    check_namespace(contract, query.namespace)
    workers = sum(query.now - one.time <= FRESH_S for one in contract.workers)
    traffic, window, tier, notes = _traffic(query, workers)
    return Inputs(
        instance=query.instance,
        now=query.now,
        channels=contract.channels,
        subscriptions=contract.subscriptions,
        states=states_of(contract, query.now, query.since),
        traffic=traffic,
        window=window,
        tier=tier,
        namespace=query.namespace,
        workers=workers,
        notes=tuple(notes),
    )


def check_namespace(contract: Contract, namespace: str) -> None:
    """Raises PenstockError, with the known namespaces, when this one is empty."""
    known = {one.namespace for one in contract.channels} | {one.namespace for one in contract.subscriptions}
    check_known(namespace, known)


def states_of(contract: Contract, now: float, since: float) -> dict[str, State]:
    """The states by uid of the subscription. Errors before `since` do not count."""
    workers = contract.workers
    return {one.uid: state_of(subscriber_details(one, workers, now), since) for one in contract.subscriptions}


def error_text(error: LastError) -> str:
    """The error as text for people.

    The reason of an answer repeats its code. A connection error has a code too, which no server has answered.
    """
    answer = f"the answer was {error.code}"
    if not error.reason.startswith(answer):
        return f"{error.destination}: {error.reason}"
    return f"{error.destination} answered {error.code}{error.reason.removeprefix(answer)}"


def state_of(one: SubscriberDetails, since: float) -> State:
    """The part of the details that the topology needs. The lag is not known without an owner."""
    error = one.last_error[1] if one.last_error is not None and one.last_error[1].time >= since else None
    text = error_text(error) if error is not None else ""
    return State(
        ready=one.status.ready,
        message=one.status.message,
        lag=one.lag if one.as_of is not None else None,
        in_flight=one.in_flight,
        retrying=one.retrying,
        delivered_per_s=one.delivered_per_s,
        last_error=text[:SHOWN_CHARS],
    )


Found = tuple[list[Traffic], Window, Tier, list[str]]


def _traffic(query: TopologyQuery, workers: int) -> Found:
    notes: list[str] = []
    if query.tier in (None, Tier.WINDOWS):
        found = _windows(query, notes)
        if found is not None:
            return found
        if query.tier is Tier.WINDOWS:
            raise PenstockError(" ".join(notes), "Create them: penstock job traffic.")
    if query.tier in (None, Tier.DELTAS):
        found = _deltas(query, workers, notes)
        if found is not None:
            return found
        if query.tier is Tier.DELTAS:
            raise PenstockError(" ".join(notes), "Workers write it while PENSTOCK_TRAFFIC is on.")
    if query.tier is Tier.NONE or not workers:
        return [], Window(), Tier.NONE, notes
    return [], Window(query.now - 60.0, query.now), Tier.STATUS, notes


def _windows(query: TopologyQuery, notes: list[str]) -> Found | None:
    if not query.folder.is_dir():
        notes.append(f"There are no traffic tables in {query.folder}.")
        return None
    from app.operations.topology.tables import read_tables

    try:
        rows, window = read_tables(query.folder, query.since, query.until)
    except PenstockError as problem:
        notes.append(str(problem))
        return None
    if window is None or query.until - window.end > STALE_S:
        notes.append(f"The traffic tables in {query.folder} do not reach to the end of the window.")
        return None
    return rows, window, Tier.WINDOWS, notes


def _deltas(query: TopologyQuery, workers: int, notes: list[str]) -> Found | None:
    topic = traffic_topic(query.instance)
    summing = Summing()
    first = query.until
    broken = repeated = count = 0
    try:
        with TopicReader(topic, query.client) as reader:
            for record in reader.since(int(query.since * 1000)):
                try:
                    delta = decode(record.value)
                except BadDeltaError:
                    broken += 1
                    continue
                if query.since <= delta.at < query.until:
                    new = summing.delta(delta)
                    count += new
                    repeated += not new
                    first = min(first, float(delta.at))
    except NoSuchTopicError:
        notes.append(f"There is no topic {topic}: no worker has counted traffic yet.")
        return None
    if not count and not workers:
        notes.append(f"The topic {topic} has no record in the window, and no worker runs.")
        return None
    if broken:
        notes.append(f"{broken} records of {topic} could not be read.")
    if repeated:
        notes.append(f"{repeated} records of {topic} were duplicates and are counted once.")
    # If the records begin later than `since`, so does the window. Otherwise rates would be too low.
    return summing.sums(), Window(first if count else query.since, query.until), Tier.DELTAS, notes
