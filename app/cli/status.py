"""`penstock status`: resources, whether they are ready, and their delivery statistics.

The contract says what is served, the workers' statuses who serves it, and the controller's status what it rejects. Does
not ask a worker over HTTP: every worker would answer what is in Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

import typer

from app.cli.options.completion import complete_resource
from app.cli.options.given import not_together
from app.cli.options.kafka import Kafka, kafka_client
from app.cli.options.namespace import AllNamespaces, Context, Namespace, chosen_namespace
from app.cli.options.resource import KINDS
from app.cli.output import watch as watching
from app.cli.output.delivery import describe_dead_letters, describe_delivery
from app.cli.output.format import Listing, View, Views, print_json, print_yaml
from app.cli.output.time import show_time
from app.operations.contract_snapshot import Contract, in_namespace, read_contract, unknown
from app.settings import load_settings
from knative import filters
from knative.contract.records import BROKER, CHANNEL, SUBSCRIPTION, TRIGGER, Channel, Subscription
from knative.errors import NotReadyError, PenstockError
from knative.resources.brokers import NOT_OUR_CLASS
from tables.resource_status import WORKER, ResourceStatus, resource_statuses
from tables.subscriber_details import SubscriberDetails
from tables.timing import SPARING_S

_CHANNELS = Listing(
    columns={
        "channel": "CHANNEL",
        "partitions": "PARTITIONS",
        "ready": "READY",
        "message": "MESSAGE",
    },
    wide={"reason": "REASON", "topic": "TOPIC", "dlq_topic": "DLQ TOPIC", "path": "PATH", "message": "MESSAGE"},
    name="channel",
    empty="No channels.",
)
_SUBSCRIPTIONS = Listing(
    columns={
        "subscription": "SUBSCRIPTION",
        "channel": "CHANNEL",
        "subscriber": "SUBSCRIBER",
        "ready": "READY",
        "lag": "LAG",
        "message": "MESSAGE",
    },
    wide={
        "order": "ORDER",
        "reason": "REASON",
        "lag_s": "LAG S",
        "delivered_per_s": "PER S",
        "in_flight": "IN FLIGHT",
        "retrying": "RETRYING",
        "next_attempt": "NEXT ATTEMPT",
        "owners": "OWNERS",
        "dead_letters": "DEAD LETTERS TO",
        "delivery": "DELIVERY",
        "last_error": "LAST ERROR",
        "message": "MESSAGE",
    },
    name="subscription",
    times=frozenset({"next_attempt"}),
    empty="No subscriptions.",
)
_BROKERS = Listing(
    columns={"broker": "BROKER", **{key: text for key, text in _CHANNELS.columns.items() if key != "channel"}},
    wide=_CHANNELS.wide,
    name="broker",
    empty="No brokers.",
)
_TRIGGERS = Listing(
    columns={
        "trigger": "TRIGGER",
        "broker": "BROKER",
        **{key: text for key, text in _SUBSCRIPTIONS.columns.items() if key not in ("subscription", "channel")},
    },
    wide={**_SUBSCRIPTIONS.wide, "filter": "FILTER"},
    name="trigger",
    times=_SUBSCRIPTIONS.times,
    empty="No triggers.",
)
#: Key of the rows' name -> their table.
_LISTINGS = {"channel": _CHANNELS, "broker": _BROKERS, "subscription": _SUBSCRIPTIONS, "trigger": _TRIGGERS}
_PROBLEMS = Listing(
    columns={"file": "RESOURCE FILE", "message": "PROBLEM"},
    name="file",
    empty="",
)
_PROGRESS = (
    "lag", "lag_s", "delivered_per_s", "in_flight", "retrying", "next_attempt", "last_error", "last_error_at", "owners"
)  # fmt: skip
#: Kind -> key of its rows.
_TABLES = {CHANNEL: "channels", BROKER: "brokers", SUBSCRIPTION: "subscriptions", TRIGGER: "triggers"}
Rows = dict[str, list[dict[str, object]]]


def status(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Show only these resources: NAMESPACE/NAME, or KIND/NAMESPACE/NAME as -o name prints it.",
            autocompletion=complete_resource,
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all selected resources are ready.")] = False,
    limit_s: Annotated[float, typer.Option("--timeout", min=0, help="Maximum seconds to wait with --wait.")] = 60.0,
    watch: watching.Watch = False,
    every_s: watching.Every = 2.0,
    namespace: Namespace = "",
    everywhere: AllNamespaces = False,
    context: Context = "",
    kafka: Kafka = "",
    output: Views = View.TABLE,
) -> None:
    """Show channels, brokers, subscriptions and triggers.

    Exit code: 0 if all resources are ready and all files are accepted, else 3.

    Brokers of another class, and their triggers, are listed as left alone and do not affect the exit code.

    A resource that the controller rejects is shown with the reason, even if its previous state is still served.

    -o wide adds the statistics of each subscription and trigger: lag, rate of the last minute, retries, last error,
    workers. It also shows the filter of each trigger, and the delivery that applies: which fields are its own, which
    come from its channel or broker, and which are defaults.

    --wait waits until all are ready, for scripts that start a worker and then send events.

    \b
    Examples:
      penstock status
      penstock status -n default
      penstock status default/quickstart
      penstock status --wait --timeout 30
      penstock status subscription/default/picky -o wide
      penstock status -o wide --watch
      penstock status -o json
      penstock status --kafka 127.0.0.1:9092
    """
    client, instance = kafka_client(kafka), load_settings().instance
    where = chosen_namespace(namespace, everywhere, context)

    def read() -> Rows:
        contract = read_contract(client, instance)
        if wait and contract.report is None:
            raise NotReadyError("No controller has reported yet.", "Start a worker of role all.")
        return chosen(rows(in_namespace(contract, where), time.time()), names or ())

    not_together("--watch", "--wait", both=watch and wait)
    if watch:
        watching.watch(read, lambda tables: _show_next(tables, output, names), partial(_tables, names), every_s, output)
        return
    tables = _waited(read, limit_s) if wait else read()
    _show(tables, output, names)
    if not all_ready(tables):
        if wait:
            raise NotReadyError(
                f"Not all resources are ready after {limit_s:g} s.", "The column MESSAGE says what is missing."
            )
        raise typer.Exit(3)


def chosen(tables: Rows, names: Sequence[str]) -> Rows:
    """Returns only rows with these names; no names = all. Raises PenstockError, with the known names, for any other."""
    if not names:
        return tables
    selection: Rows = {table: [] for table in tables}
    for wish in names:
        kind, _, name = wish.partition("/") if wish.count("/") == 2 else ("", "", wish)
        rows_ = [
            (table, row)
            for table, key in ((f"{key}s", key) for key in _LISTINGS)
            for row in tables[table]
            if row[key] == name and KINDS.get(kind.lower(), key).lower().endswith(key)
        ]
        if not rows_ or (kind and kind.lower() not in KINDS):
            labels = [str(row[key]) for key in _LISTINGS for row in tables[f"{key}s"]]
            what = "resource" if tables["brokers"] or tables["triggers"] else "channel or subscription"
            raise unknown(what, wish, labels)
        for table, row in rows_:
            if row not in selection[table]:
                selection[table].append(row)
    return selection


def all_ready(tables: Rows) -> bool:
    """Returns whether all are ready, except what is left alone."""
    return all(row["ready"] == "True" or row["reason"] == NOT_OUR_CLASS for table in tables.values() for row in table)


def _waited(read: Callable[[], Rows], limit_s: float) -> Rows:
    """Returns the first rows of which all are ready, else the last ones. Raises what the last read raised."""
    end_s = time.monotonic() + limit_s
    while True:
        last = time.monotonic() >= end_s
        try:
            tables = read()
            if last or all_ready(tables):
                return tables
        except PenstockError:  # Kafka, the installation or the resource may still be starting
            if last:
                raise
        time.sleep(min(SPARING_S, max(0.0, end_s - time.monotonic())))


def _show(tables: Rows, output: View, names: Sequence[str] | None) -> None:
    if output is View.JSON:
        print_json(tables)
    elif output is View.YAML:
        print_yaml(tables)
    elif output is View.NAME:
        for kind in _LISTINGS:
            for row in tables[f"{kind}s"]:
                print(f"{kind}/{row[kind]}")
    else:
        for number, (listing, rows_) in enumerate(_tables(names, tables)):
            if number:
                print()
            listing.show(rows_, output)


def _show_next(tables: Rows, output: View, names: Sequence[str] | None) -> None:
    """Print one result of several, separated from the next."""
    _show(tables, output, names)
    watching.separate(output)


def _tables(names: Sequence[str] | None, tables: Rows) -> list[tuple[Listing, list[dict[str, object]]]]:
    """Returns the tables that have rows. Without `names` it adds those of channels and subscriptions, unless there are
    brokers or triggers."""
    always = () if names or tables["brokers"] or tables["triggers"] else (_CHANNELS, _SUBSCRIPTIONS)
    pairs = [*((listing, tables[f"{key}s"]) for key, listing in _LISTINGS.items()), (_PROBLEMS, tables["problems"])]
    return [(listing, rows_) for listing, rows_ in pairs if rows_ or listing in always]


def rows(contract: Contract, now_s: float) -> Rows:
    """Returns rows of all tables. A resource that was never served has a row too, with None for unknown values."""
    tables: Rows = {f"{key}s": [] for key in ("channel", "broker", "subscription", "trigger", "problem")}
    for status in resource_statuses(contract, now_s):
        readiness = _readiness(status)
        if status.kind in (CHANNEL, BROKER):
            tables[_TABLES[status.kind]].append(_channel_row(status.kind, status.label, status.channel, readiness))
        elif status.kind in (SUBSCRIPTION, TRIGGER):
            row = _subscription_row(status.kind, status.label, status.subscription, readiness, status.details)
            tables[_TABLES[status.kind]].append(row)
        else:
            file = f"worker {status.name}" if status.kind == WORKER else status.name
            tables["problems"].append({"file": file, **readiness})
    for key in _LISTINGS:
        tables[f"{key}s"].sort(key=lambda row: str(row[key]))  # sorted before the next key
    return tables


def _channel_row(kind: str, label: str, channel: Channel | None, readiness: dict[str, object]) -> dict[str, object]:
    return {
        _TABLES[kind][:-1]: label,
        "uid": channel and channel.uid,
        "generation": channel and channel.generation,
        "topic": channel and channel.topic,
        "dlq_topic": channel and channel.dlq_topic,
        "partitions": channel and channel.partitions,
        "hosts": list(channel.hosts) if channel else [],
        "path": channel and channel.path,
        **readiness,
    }


def _subscription_row(
    kind: str,
    label: str,
    subscription: Subscription | None,
    readiness: dict[str, object],
    details: SubscriberDetails | None,
) -> dict[str, object]:
    return {
        _TABLES[kind][:-1]: label,
        "uid": subscription and subscription.uid,
        "generation": subscription and subscription.generation,
        "broker" if kind == TRIGGER else "channel": subscription and subscription.channel,
        "subscriber": subscription and subscription.subscriber.shown_uri,
        "order": subscription and str(subscription.order),
        **({"filter": subscription and filters.to_json(subscription.filter)} if kind == TRIGGER else {}),
        "dead_letters": subscription and describe_dead_letters(subscription),
        "delivery": subscription and describe_delivery(subscription),
        "group": subscription and subscription.group,
        **readiness,
        **_progress(details),
    }


def _readiness(status: ResourceStatus) -> dict[str, object]:
    ready = status.ready
    return {"ready": ready.status.value, "reason": ready.reason, "message": ready.message}


def _progress(details: SubscriberDetails | None) -> dict[str, object]:
    """Returns the statistics of a subscription over all workers; None = no worker reports any."""
    if details is None or details.as_of is None:
        return dict.fromkeys(_PROGRESS)
    error = details.last_error[1] if details.last_error else None
    place = f"{error.reason} (partition {error.partition}, offset {error.offset})" if error else None
    values = (
        details.lag,
        None if details.lag_s is None else round(details.lag_s, 1),
        round(details.delivered_per_s, 1),
        details.in_flight,
        details.retrying,
        show_time(details.next_attempt) if details.next_attempt else None,
        place,
        show_time(error.time) if error else None,
        ", ".join(f"{worker}: {_numbers(numbers)}" for worker, numbers in details.owners) or None,
    )
    return dict(zip(_PROGRESS, values, strict=True))


def _numbers(partitions: tuple[int, ...]) -> str:
    """Returns 0-9 for consecutive numbers, else 0,3,7."""
    first, last = partitions[0], partitions[-1]
    if len(partitions) > 1 and last - first == len(partitions) - 1:
        return f"{first}-{last}"
    return ",".join(map(str, partitions))
