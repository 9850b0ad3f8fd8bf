"""Reads contract, statuses and traffic from Kafka and from the tables of the traffic job, for the topology.

    traffic tables that reach to the end of the window   ->  tier windows
    else the topic of the deltas                         ->  tier deltas
    else the statuses of the workers                     ->  tier status, or none

It joins no group and sends no request to a worker, so it works while no worker runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from analytics.topology.model.document import Tier, Window
from analytics.topology.model.inputs import STALE_S, Inputs, State, Traffic
from app.operations.contract_snapshot import Contract, check_known, read_contract
from knative.contract.kafka_names import traffic_topic
from knative.contract.subscription_stats import LastError
from knative.errors import SHOWN_CHARS, PenstockError
from knative.shown import moment
from knative.traffic.delta import BadDeltaError, decode
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.topic_reader import NoSuchTopicError, TopicReader
from tables.status_table import FRESH_S, subscriber_details
from tables.subscriber_details import SubscriberDetails

if TYPE_CHECKING:
    from analytics.topology.model.arrivals import Arrivals, Stream

MAKE_TABLES = "Create them with `penstock job traffic`."
_TURN_ON = "Workers write this topic while PENSTOCK_TRAFFIC is true."


@dataclass(frozen=True, slots=True)
class TopologyQuery:
    """What to read. Times in Unix seconds; `tier` None: the best one that has data."""

    client: Mapping[str, Any]
    instance: str
    now: float
    since: float
    until: float
    namespace: str = ""
    folder: Path | str = Path(".penstock/traffic")
    tier: Tier | None = None

    @property
    def is_current(self) -> bool:
        """Whether the window reaches to about now, so that what is so now says something of it."""
        return self.now - self.until <= STALE_S


@dataclass(frozen=True, slots=True)
class Counted:
    """Traffic of a window, added up; `notes`: sentences on how it was read."""

    traffic: Sequence[Traffic]
    arrivals: Arrivals[Stream] | None
    window: Window
    notes: tuple[str, ...] = ()


class NoTrafficError(PenstockError):
    """A source of traffic does not have the window."""


class TrafficReader(Protocol):
    """Adds up one source of traffic. `workers`: how many run. Raises NoTrafficError with the reason."""

    def __call__(self, query: TopologyQuery, workers: int) -> Counted: ...


def read_inputs(
    query: TopologyQuery, windows: TrafficReader | None = None, deltas: TrafficReader | None = None
) -> Inputs:
    """Read everything for one report, traffic by other readers if they are given. Raises NotReadyError when Kafka does
    not answer, PenstockError for missing data."""
    contract = read_contract(query.client, query.instance)
    check_namespace(contract, query.namespace)
    workers = sum(query.now - worker.time <= FRESH_S for worker in contract.workers)
    counted, tier = traffic_of(query, workers, windows or windows_of_tables, deltas or deltas_of_topic)
    cluster = KafkaAdmin(query.client).cluster()
    return Inputs(
        instance=query.instance,
        now=query.now,
        channels=contract.channels,
        subscriptions=contract.subscriptions,
        states=states_of(contract, query.now, query.since),
        traffic=counted.traffic,
        arrivals=counted.arrivals,
        declared=_declared(contract),
        window=counted.window,
        tier=tier,
        namespace=query.namespace,
        workers=workers,
        brokers=cluster.brokers,
        replicas=cluster.replicas,
        notes=counted.notes,
    )


def _declared(contract: Contract) -> dict[tuple[str, str], tuple[str, ...]]:
    """Returns the declared types that the leading controller has read from EventTypes."""
    if contract.report is None:
        return {}
    parts = ((*label.partition("/")[::2], types) for label, types in contract.report.event_types.items())
    return {(namespace, name): types for namespace, name, types in parts}


def check_namespace(contract: Contract, namespace: str) -> None:
    """Raises PenstockError, with the known namespaces, when this one is empty."""
    namespaces = {channel.namespace for channel in contract.channels} | {
        subscription.namespace for subscription in contract.subscriptions
    }
    check_known(namespace, namespaces)


def states_of(contract: Contract, now: float, since: float) -> dict[str, State]:
    """Returns the states by uid of the subscription. Errors before `since` do not count."""
    workers = contract.workers
    return {
        subscription.uid: state_of(subscriber_details(subscription, workers, now), since)
        for subscription in contract.subscriptions
    }


def error_text(error: LastError) -> str:
    """Returns the error as text for people.

    The reason of an answer repeats its code. A connection error has a code too, which no server has answered.
    """
    answer = f"the answer was {error.code}"
    if not error.reason.startswith(answer):
        return f"{error.destination}: {error.reason}"
    return f"{error.destination} answered {error.code}{error.reason.removeprefix(answer)}"


def state_of(details: SubscriberDetails, since: float) -> State:
    """Returns the part of the details that the topology needs. The lag is not known without an owner."""
    error = details.last_error[1] if details.last_error is not None and details.last_error[1].time >= since else None
    text = error_text(error) if error is not None else ""
    return State(
        ready=details.status.ready,
        message=details.status.message,
        lag=details.lag if details.as_of is not None else None,
        in_flight=details.in_flight,
        retrying=details.retrying,
        delivered_per_s=details.delivered_per_s,
        last_error=text[:SHOWN_CHARS],
    )


def traffic_of(
    query: TopologyQuery, workers: int, windows: TrafficReader, deltas: TrafficReader
) -> tuple[Counted, Tier]:
    """Returns the best source that has the window. Raises NoTrafficError if the query names one that has not."""
    notes: list[str] = []
    for tier, read in ((Tier.WINDOWS, windows), (Tier.DELTAS, deltas)):
        if query.tier in (None, tier):
            try:
                counted = read(query, workers)
            except NoTrafficError as problem:
                if query.tier is tier:
                    raise
                notes.append(str(problem.what))
                continue
            return replace(counted, notes=(*notes, *counted.notes)), tier
    window, of = Window(), Tier.NONE
    if query.tier is not Tier.NONE and not query.is_current:
        notes.append("The statuses of workers are current, so they have no numbers of a window that has ended.")
    elif query.tier is not Tier.NONE and workers:
        window, of = Window(query.now - 60.0, query.now), Tier.STATUS
    return Counted((), None, window, tuple(notes)), of


def windows_of_tables(query: TopologyQuery, workers: int) -> Counted:
    """Reads the tables of the traffic job, if they reach to the end of the window."""
    # without the seconds that Arrow takes to load
    if "://" not in str(query.folder) and not Path(query.folder).is_dir():
        raise NoTrafficError(f"There are no traffic tables in {query.folder}.", MAKE_TABLES)
    from app.operations.topology.tables import reach_of, read_tables

    try:
        reach = reach_of(query.folder, query.since, query.until)  # first, for a job may commit meanwhile
        sums, span = read_tables(query.folder, query.since, query.until)
    except PenstockError as problem:
        raise NoTrafficError(problem.what, problem.hint) from problem
    return Counted(*sums, recent(query, span, reach))


def recent(query: TopologyQuery, span: Window | None, reach: Window) -> Window:
    """Returns the window of tables that have rows of this span. `reach`: the time that the tables cover completely, so
    that no row means no event; an hour is in them as soon as it has begun. Raises NoTrafficError if they do not reach
    to the end of what was asked for."""
    start = reach.start if span is None else min(span.start, reach.start)
    if reach.end <= start or query.until - reach.end > STALE_S:
        end = f"they end at {moment(reach.end)}" if reach.end > start else "they have nothing of it"
        raise NoTrafficError(
            f"The traffic tables in {query.folder} do not reach to the end of the window: {end}.",
            "Continue them with `penstock job traffic`.",
        )
    return Window(start, reach.end)


def deltas_of_topic(query: TopologyQuery, workers: int) -> Counted:
    """Reads the records that workers write, and counts each once."""
    from analytics.topology.model.sums import Summing  # needs numpy, which a worker that has the map need not have

    topic = traffic_topic(query.instance)
    summing = Summing()
    first = query.until
    broken = repeated = count = 0
    try:
        with TopicReader(topic, query.client) as reader:
            older = reader.has_before(int(query.since * 1000))
            for record in reader.between(int(query.since * 1000), int((query.until + STALE_S) * 1000)):
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
    except NoSuchTopicError as problem:
        raise no_topic(topic) from problem
    window = window_of_deltas(query, workers, Window(first, query.until) if count else None, older)
    notes = []
    if broken:
        notes.append(f"{broken} records of {topic} could not be read.")
    if repeated:
        notes.append(f"{repeated} records of {topic} were duplicates and are counted once.")
    return Counted(*summing.sums(), window, tuple(notes))


def window_of_deltas(query: TopologyQuery, workers: int, span: Window | None, older: bool) -> Window:
    """Returns the window of records that have this span; None: there are none. Raises NoTrafficError if no worker runs
    either, or if records of such an old window may be gone.

    If no record is older than `since`, counting began with the first one, and so does the window. Otherwise rates would
    be too low.
    """
    if span is None and not (workers and (older or query.is_current)):
        why = "no worker wrote to it before" if workers else "no worker runs"
        raise NoTrafficError(
            f"The topic {traffic_topic(query.instance)} has no record in the window, and {why}.", _TURN_ON
        )
    return Window(query.since if span is None or older else span.start, query.until)


def no_topic(topic: str) -> NoTrafficError:
    """Returns the error for a topic of traffic that does not exist."""
    return NoTrafficError(f"There is no topic {topic}: no worker has counted traffic yet.", _TURN_ON)
