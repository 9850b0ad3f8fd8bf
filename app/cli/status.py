"""`penstock status`: channels and subscriptions, whether they are ready, and their delivery statistics.

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
from app.cli.options.kafka import Kafka, kafka_client
from app.cli.options.resource import KINDS
from app.cli.output import watch as watching
from app.cli.output.format import Listing, View, Views, print_json, print_yaml
from app.cli.output.time import show_time
from app.operations.contract_snapshot import Contract, read_contract
from app.settings import load_settings
from knative.contract.records import Channel, ResourceProblem, Subscription
from knative.errors import NotReadyError, PenstockError, UsageError
from knative.resources.conditions import Condition, ConditionStatus, ready, with_note
from tables.status_table import serving, subscriber_details
from tables.subscriber_details import SubscriberDetails

_CHANNELS = Listing(
    columns={
        "channel": "CHANNEL",
        "topic": "TOPIC",
        "partitions": "PARTITIONS",
        "ready": "READY",
        "message": "MESSAGE",
    },
    wide={"reason": "REASON", "dlq_topic": "DLQ TOPIC", "path": "PATH", "generation": "GENERATION", "uid": "UID"},
    name="channel",
    empty="No channels.",
)
_SUBSCRIPTIONS = Listing(
    columns={
        "subscription": "SUBSCRIPTION",
        "channel": "CHANNEL",
        "subscriber": "SUBSCRIBER",
        "order": "ORDER",
        "ready": "READY",
        "lag": "LAG",
        "message": "MESSAGE",
    },
    wide={
        "reason": "REASON",
        "lag_s": "LAG S",
        "delivered_per_s": "PER S",
        "in_flight": "IN FLIGHT",
        "retrying": "RETRYING",
        "next_attempt": "NEXT ATTEMPT",
        "last_error": "LAST ERROR",
        "owners": "OWNERS",
        "group": "GROUP",
        "generation": "GENERATION",
        "uid": "UID",
    },
    name="subscription",
    empty="No subscriptions.",
)
_PROBLEMS = Listing(
    columns={"file": "RESOURCE FILE", "message": "PROBLEM"},
    name="file",
    empty="",
)
_PROGRESS = (
    "lag", "lag_s", "delivered_per_s", "in_flight", "retrying", "next_attempt", "last_error", "last_error_at", "owners"
)  # fmt: skip
_WAIT_POLL_S = 0.5
Rows = dict[str, list[dict[str, object]]]


def status(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Only these resources: NAMESPACE/NAME, or KIND/NAMESPACE/NAME as -o name prints it.",
            autocompletion=complete_resource,
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all shown resources are ready.")] = False,
    limit_s: Annotated[float, typer.Option("--timeout", min=0, help="Most seconds to wait with --wait.")] = 60.0,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Repeat until Ctrl-C.")] = False,
    every_s: Annotated[float, typer.Option("--every", min=0.2, help="Seconds between updates with --watch.")] = 2.0,
    kafka: Kafka = "",
    output: Views = View.TABLE,
) -> None:
    """Show channels and subscriptions. Exit code: 0 if all are ready and every file is accepted, else 3.

    A resource that the controller rejects is shown with the reason, even if its previous state is still served.

    -o wide adds the statistics of each subscription: lag, rate of the last minute, retries, last error, workers.

    --wait waits until all are ready, for scripts that start a worker and then send events.

    \b
    Examples:
      penstock status
      penstock status default/quickstart
      penstock status --wait --timeout 30
      penstock status subscription/default/picky -o wide
      penstock status -o wide --watch
      penstock status -o json
      penstock status --kafka 127.0.0.1:9092
    """
    client, instance = kafka_client(kafka), load_settings().instance

    def read() -> Rows:
        contract = read_contract(client, instance)
        if wait and contract.report is None:
            raise NotReadyError("No controller has reported its resources yet.", "Start a worker of role all.")
        return chosen(rows(contract, time.time()), names or ())

    if watch and wait:
        raise UsageError("--watch and --wait cannot be combined.", "Use one of them.")
    if watch:
        watching.watch(read, lambda shown: _show_next(shown, output, names), partial(_tables, names), every_s, output)
        return
    shown = _waited(read, limit_s) if wait else read()
    _show(shown, output, names)
    if not _all_ready(shown):
        if wait:
            raise NotReadyError(
                f"Not all resources are ready after {limit_s:g} s.", "The column MESSAGE says what is missing."
            )
        raise typer.Exit(3)


def chosen(shown: Rows, names: Sequence[str]) -> Rows:
    """Only rows with these names; no names = all. Raises PenstockError, with the known names, for any other."""
    if not names:
        return shown
    found: Rows = {"channels": [], "subscriptions": [], "problems": []}
    for wish in names:
        kind, _, name = wish.partition("/") if wish.count("/") == 2 else ("", "", wish)
        rows_ = [
            (table, row)
            for table, key in (("channels", "channel"), ("subscriptions", "subscription"))
            for row in shown[table]
            if row[key] == name and KINDS.get(kind.lower(), key).lower().endswith(key)
        ]
        if not rows_ or (kind and kind.lower() not in KINDS):
            known = [str(row["channel"]) for row in shown["channels"]]
            known += [str(row["subscription"]) for row in shown["subscriptions"]]
            raise PenstockError(
                f"There is no channel or subscription {wish}; known: {', '.join(dict.fromkeys(known)) or 'none'}.",
                "Write NAMESPACE/NAME of one of them.",
            )
        for table, row in rows_:
            if row not in found[table]:
                found[table].append(row)
    return found


def _all_ready(shown: Rows) -> bool:
    return all(row["ready"] == "True" for found in shown.values() for row in found)


def _waited(read: Callable[[], Rows], limit_s: float) -> Rows:
    """The first rows of which all are ready, else the last ones. Raises what the last read raised."""
    end_s = time.monotonic() + limit_s
    while True:
        last = time.monotonic() >= end_s
        try:
            shown = read()
            if last or _all_ready(shown):
                return shown
        except PenstockError:  # Kafka, the installation or the resource may still be starting
            if last:
                raise
        time.sleep(min(_WAIT_POLL_S, max(0.0, end_s - time.monotonic())))


def _show(shown: Rows, output: View, names: Sequence[str] | None) -> None:
    if output is View.JSON:
        print_json(shown)
    elif output is View.YAML:
        print_yaml(shown)
    elif output is View.NAME:
        for kind in ("channel", "subscription"):
            for row in shown[f"{kind}s"]:
                print(f"{kind}/{row[kind]}")
    else:
        for number, (listing, found) in enumerate(_tables(names, shown)):
            if number:
                print()
            listing.show(found, output)


def _show_next(shown: Rows, output: View, names: Sequence[str] | None) -> None:
    """Print one result of several, separated from the next."""
    _show(shown, output, names)
    watching.separate(output)


def _tables(names: Sequence[str] | None, shown: Rows) -> list[tuple[Listing, list[dict[str, object]]]]:
    """The tables that have rows; without `names` always those of channels and subscriptions."""
    found = [(_CHANNELS, shown["channels"]), (_SUBSCRIPTIONS, shown["subscriptions"]), (_PROBLEMS, shown["problems"])]
    return [(listing, rows_) for listing, rows_ in found if rows_ or not (names or listing is _PROBLEMS)]


def rows(contract: Contract, now_s: float) -> Rows:
    """Rows of all tables. A channel or subscription is ready if neither controller nor workers object. One that was
    never served has a row too, with None for unknown values.
    """
    unreported = {
        (one.kind, one.namespace, one.name): one for one in (contract.report.problems if contract.report else ())
    }
    found = {one.uid: subscriber_details(one, contract.workers, now_s) for one in contract.subscriptions}
    subscriptions = []
    for one in contract.subscriptions:
        problem = unreported.pop(("Subscription", one.namespace, one.name), None) or _foreign(one, contract)
        readiness = _readiness(problem, [serving("Ready", found[one.uid].status)])
        subscriptions.append(_subscription_row(one.label, one, readiness, found[one.uid]))
    channels = []
    for channel in contract.channels:
        problem = unreported.pop(("KafkaChannel", channel.namespace, channel.name), None) or _foreign(channel, contract)
        mine = [one for one in contract.subscriptions if one.channel_uid == channel.uid]
        parts = [serving("Ready", found[one.uid].status, f"Subscription {one.label}") for one in mine]
        channels.append(_channel_row(f"{channel.namespace}/{channel.name}", channel, _readiness(problem, parts)))
    problems: list[dict[str, object]] = []
    for problem in unreported.values():
        label = f"{problem.namespace}/{problem.name}"
        if problem.kind == "KafkaChannel":
            channels.append(_channel_row(label, None, _readiness(problem, [])))
        elif problem.kind == "Subscription":
            subscriptions.append(_subscription_row(label, None, _readiness(problem, []), None))
        else:
            problems.append({"file": problem.name, **_readiness(problem, [])})
    if contract.report is not None and contract.report.left_out:
        more = f"{contract.report.left_out} further objects or files have problems; the controller's log names them"
        problems.append({"file": "(and more)", "ready": "False", "reason": "NoRoom", "message": more})
    channels.sort(key=lambda row: str(row["channel"]))
    subscriptions.sort(key=lambda row: str(row["subscription"]))
    return {"channels": channels, "subscriptions": subscriptions, "problems": problems}


def _foreign(one: Channel | Subscription, contract: Contract) -> ResourceProblem | None:
    """How to remove a resource that no file names; None = a file names it."""
    if contract.report is None or one.uid not in contract.report.foreign:
        return None
    name = f"{one.kind}/{one.namespace}/{one.name}"
    what = f"it is kept although no file contains it; to remove it: `penstock remove {name} --yes`"
    return ResourceProblem(one.kind, one.namespace, one.name, "True", "NotInAnyFile", what)


def _channel_row(label: str, one: Channel | None, readiness: dict[str, object]) -> dict[str, object]:
    return {
        "channel": label,
        "uid": one and one.uid,
        "generation": one and one.generation,
        "topic": one and one.topic,
        "dlq_topic": one and one.dlq_topic,
        "partitions": one and one.partitions,
        "hosts": list(one.hosts) if one else [],
        "path": one and one.path,
        **readiness,
    }


def _subscription_row(
    label: str, one: Subscription | None, readiness: dict[str, object], found: SubscriberDetails | None
) -> dict[str, object]:
    return {
        "subscription": label,
        "uid": one and one.uid,
        "generation": one and one.generation,
        "channel": one and one.channel,
        "subscriber": one and one.subscriber.uri,
        "order": one and str(one.order),
        "group": one and one.group,
        **readiness,
        **_progress(found),
    }


def _readiness(problem: ResourceProblem | None, served: list[Condition]) -> dict[str, object]:
    """`Ready` from what the controller reports (None = no problem) and the conditions that workers report."""
    said = (
        [] if problem is None else [Condition("Ready", ConditionStatus(problem.ready), problem.reason, problem.message)]
    )
    summary = with_note(ready([*said, *served]), [*said, *served])  # ready, but possibly with a warning
    return {"ready": summary.status.value, "reason": summary.reason, "message": summary.message}


def _progress(found: SubscriberDetails | None) -> dict[str, object]:
    """The statistics of a subscription over all workers; None = no worker reports any."""
    if found is None or found.as_of is None:
        return dict.fromkeys(_PROGRESS)
    error = found.last_error[1] if found.last_error else None
    place = f"{error.reason} (partition {error.partition}, offset {error.offset})" if error else None
    shown = (
        found.lag,
        None if found.lag_s is None else round(found.lag_s, 1),
        round(found.delivered_per_s, 1),
        found.in_flight,
        found.retrying,
        show_time(found.next_attempt) if found.next_attempt else None,
        place,
        show_time(error.time) if error else None,
        ", ".join(f"{worker}: {_numbers(numbers)}" for worker, numbers in found.owners) or None,
    )
    return dict(zip(_PROGRESS, shown, strict=True))


def _numbers(partitions: tuple[int, ...]) -> str:
    """0-9 for consecutive numbers, else 0,3,7."""
    first, last = partitions[0], partitions[-1]
    if len(partitions) > 1 and last - first == len(partitions) - 1:
        return f"{first}-{last}"
    return ",".join(map(str, partitions))
