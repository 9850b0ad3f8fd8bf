"""`penstock remove`: removes resources that are served although no file names them any more.

    remove --> request in the status topic --> leading controller: record, group, topics --> gone, or a time limit

The controller retains such resources, because their directory may only be unavailable; only a user can know. The
controller removes them, with the same steps as after the deletion of a file.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from app.cli.options.completion import complete_foreign
from app.cli.options.kafka import Kafka, kafka_client
from app.cli.options.resource import KINDS
from app.cli.output.format import Format, Output, note, print_json, print_table
from app.operations.contract_snapshot import Contract, foreign_names, read_contract
from app.operations.requests import store_requests
from app.settings import load_settings
from knative.contract.records import TRIGGER, Channel, RemovalRequest, Subscription
from knative.errors import NotReadyError, PenstockError, UsageError
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.status_table import REQUEST_KEY, encode_request

_POLL_S = 0.5
_ASK_LIMIT_S = 10.0
_COLUMNS = {"resource": "RESOURCE", "group": "GROUP", "topics": "TOPICS"}


@dataclass(frozen=True, slots=True)
class RemovalTarget:
    """A resource to remove, with everything that belongs to it."""

    uid: str
    resource: str
    group: str = ""
    topics: tuple[str, ...] = ()


def remove(
    resources: Annotated[
        list[str],
        typer.Argument(
            metavar="KIND/NAMESPACE/NAME...",
            help="KIND is KafkaChannel, Subscription, Broker or Trigger.",
            autocompletion=complete_foreign,
        ),
    ],
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove them; without this, only show what would be removed.")
    ] = False,
    limit_s: Annotated[float, typer.Option("--timeout", min=1, help="Seconds to wait until they are removed.")] = 60.0,
    kafka: Kafka = "",
    output: Output = Format.TABLE,
) -> None:
    """Remove resources that are in no file: a subscription with its group, a channel with its topics.

    A trigger is removed like a subscription, and a broker like a channel.

    `penstock status` shows them. A resource that is in a file is rejected: delete it from the file instead.
    A controller must run. All events in the topics of a removed channel or broker are lost.

    \b
    Examples:
      penstock remove Subscription/default/old --yes
      penstock remove KafkaChannel/default/old Subscription/default/old
    """
    client, instance = kafka_client(kafka), load_settings().instance
    doomed = choose(read_contract(client, instance), resources)
    rows = [{"resource": one.resource, "group": one.group, "topics": ", ".join(one.topics)} for one in doomed]
    if not yes:
        print_table(_COLUMNS, rows, "")
        raise UsageError("Nothing was removed: this deletes them and all records in these topics.", "Say --yes.")
    try:
        _ask(client, instance, doomed)
        _wait(client, instance, doomed, limit_s)
    except KeyboardInterrupt:
        _take_back(client, instance, doomed)
        raise typer.Exit(130) from None
    except NotReadyError:
        _take_back(client, instance, doomed)
        raise
    if output is Format.JSON:
        print_json({"removed": rows})
        return
    for one in doomed:
        print(f"Removed {one.resource}.")


def choose(contract: Contract, wishes: Sequence[str]) -> list[RemovalTarget]:
    """The resources to remove, if all of them may be. Raises UsageError, PenstockError, NotReadyError otherwise."""
    report = contract.report
    if report is None:
        raise NotReadyError("No controller has reported its files yet.", "Start a worker of role all.")
    records = {f"{one.kind}/{one.namespace}/{one.name}": one for one in contract.records}
    foreign = foreign_names(contract)
    names = list(dict.fromkeys(map(read_name, wishes)))
    for name in names:
        if name not in records:
            raise PenstockError(
                f"There is no {name}; without a file: {', '.join(foreign) or 'none'}.", "See `penstock status`."
            )
        if name not in foreign:
            raise PenstockError(
                f"A file still contains {name}, or the controller has not reported yet that none does.",
                "Delete it from its file; the controller then removes it.",
            )
    _check_readers(contract, {records[name].uid for name in names})
    # "." is the note that there are foreign resources: it is there whenever something can be removed.
    bad = [one for one in report.problems if one.kind == "File" and one.name != "."]
    if bad:
        raise NotReadyError(
            f"It is not known whether a file contains it while {bad[0].name} has a problem: {bad[0].message}.",
            "Fix that first.",
        )
    return [_doomed(name, records[name]) for name in names]


def read_name(text: str) -> str:
    """KIND/NAMESPACE/NAME with the kind in its proper spelling; KIND in upper or lower case. Raises UsageError."""
    kind, _, rest = text.partition("/")
    namespace, _, name = rest.partition("/")
    if kind.lower() not in KINDS or not namespace or not name or "/" in name:
        raise UsageError(
            f"{text!r} is not KIND/NAMESPACE/NAME.",
            "Write it like Subscription/default/billing.",
        )
    return f"{KINDS[kind.lower()]}/{namespace}/{name}"


def _check_readers(contract: Contract, uids: set[str]) -> None:
    readers = [one for one in contract.subscriptions if one.channel_uid in uids and one.uid not in uids]
    if readers:
        of_broker = readers[0].kind == TRIGGER
        raise PenstockError(
            f"The {'broker still has triggers' if of_broker else 'channel still has subscriptions'}: "
            f"{', '.join(f'{one.namespace}/{one.name}' for one in readers)}.",
            f"Remove them too: add {' '.join(f'{one.kind}/{one.namespace}/{one.name}' for one in readers)}.",
        )


def _doomed(name: str, record: Channel | Subscription) -> RemovalTarget:
    if isinstance(record, Channel):
        return RemovalTarget(record.uid, name, topics=record.owned_topics)
    return RemovalTarget(record.uid, name, group=record.group)


def _ask(client: Mapping[str, Any], instance: str, doomed: Sequence[RemovalTarget]) -> None:
    store_requests(client, instance, [encode_request(RemovalRequest(one.uid, time.time())) for one in doomed])


def _take_back(client: Mapping[str, Any], instance: str, doomed: Sequence[RemovalTarget]) -> None:
    """Withdraw the requests, so that nothing is removed after this command has ended."""
    try:
        store_requests(client, instance, [(REQUEST_KEY + one.uid.encode(), None) for one in doomed])
    except NotReadyError as problem:
        raise NotReadyError(
            f"Not completed, and the request could not be withdrawn: {problem}",
            "A controller may still carry it out within two minutes: see `penstock status` after that.",
        ) from problem
    note("Not completed. The request is withdrawn; what is already removed stays removed.")


def _wait(client: Mapping[str, Any], instance: str, doomed: Sequence[RemovalTarget], limit_s: float) -> None:
    """Wait until all their records and topics are gone. Raises NotReadyError."""
    end_s = time.monotonic() + limit_s
    while left := _left(client, instance, doomed):
        if time.monotonic() > end_s:
            raise NotReadyError(
                f"After {limit_s:g} s these still exist: {', '.join(left)}.",
                "Check that a controller runs (a worker of role all or controller); its log names what it waits for.",
            )
        time.sleep(_POLL_S)


def _left(client: Mapping[str, Any], instance: str, doomed: Sequence[RemovalTarget]) -> list[str]:
    contract = read_contract(client, instance)
    served = {one.uid for one in contract.records}
    records = [one.resource for one in doomed if one.uid in served]
    wanted = {topic for one in doomed for topic in one.topics}
    if records or not wanted:
        return records
    there = KafkaAdmin(client, _ASK_LIMIT_S).cluster().topics
    return sorted(f"topic {topic}" for topic in wanted & there.keys())
