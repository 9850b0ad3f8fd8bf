"""`penstock remove`: deletes resources that no file has any more, with their groups and topics.

    remove --> request in the status topic --> leading controller: record, group, topics --> gone, or a time limit

The controller only stops serving such resources: their files may come back. Only a user can know.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from app.cli.options.completion import complete_removable
from app.cli.options.confirmation import Yes, asks, confirm
from app.cli.options.given import not_together
from app.cli.options.kafka import Kafka, kafka_client
from app.cli.options.resource import KINDS
from app.cli.output.format import Format, Output, note, print_json, print_table
from app.operations.contract_snapshot import Contract, read_contract, removable_names
from app.operations.requests import store_requests
from app.settings import load_settings
from knative.contract.records import Channel, RemovalRequest, Subscription
from knative.errors import NotReadyError, PenstockError, UsageError
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.status_table import REQUEST_KEY, encode_request
from tables.timing import SPARING_S

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
        list[str] | None,
        typer.Argument(
            metavar="KIND/NAMESPACE/NAME",
            help="KIND is KafkaChannel, Subscription, Broker or Trigger.",
            autocompletion=complete_removable,
        ),
    ] = None,
    unlisted: Annotated[bool, typer.Option("--unlisted", help="Remove all resources that are in no file.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed, but remove nothing.")] = False,
    yes: Yes = False,
    limit_s: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds to wait until the resources are removed.")
    ] = 60.0,
    kafka: Kafka = "",
    output: Output = Format.TABLE,
) -> None:
    """Delete resources that are no longer in any file.

    A subscription is deleted with its consumer group, a channel with its topics.

    A trigger is deleted like a subscription, and a broker like a channel.

    `penstock status` shows them with the reason NotInFiles. A resource that is in a file is rejected: delete it from
    the file first. A controller must run. All events in the topics of a removed channel or broker are lost. On a
    terminal the command asks first, unless you add --yes.

    \b
    Examples:
      penstock remove --unlisted --dry-run
      penstock remove Subscription/default/old --yes
      penstock remove KafkaChannel/default/old Subscription/default/old
    """
    not_together("KIND/NAMESPACE/NAME", "--unlisted", both=bool(resources) and unlisted)
    if not resources and not unlisted:
        raise UsageError("No resources are chosen.", "Write KIND/NAMESPACE/NAME, or --unlisted for all in no file.")
    client, instance = kafka_client(kafka), load_settings().instance
    contract = read_contract(client, instance)
    doomed = choose(contract, resources or removable_names(contract))
    rows = [
        {"resource": removal_target.resource, "group": removal_target.group, "topics": ", ".join(removal_target.topics)}
        for removal_target in doomed
    ]
    if dry_run or not doomed:
        if output is Format.JSON:
            print_json({"removed": [], "would_remove": rows})
        else:
            print_table(_COLUMNS, rows, "Every resource is in a file: there is nothing to remove.")
        return
    if not yes and output is Format.TABLE:
        print_table(_COLUMNS, rows, "")
    if asks(yes, "A removal of resources, with all records in their topics,"):
        confirm("Remove these resources, with all records in their topics?")
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
    for removal_target in doomed:
        print(f"Removed {removal_target.resource}.")


def choose(contract: Contract, wishes: Sequence[str]) -> list[RemovalTarget]:
    """Returns the resources to remove. Raises UsageError, PenstockError, NotReadyError if one of them may not be."""
    report = contract.report
    if report is None:
        raise NotReadyError("No controller has reported yet.", "Start a worker of role all.")
    records = {record.title: record for record in contract.records}
    removable = removable_names(contract)
    names = list(dict.fromkeys(map(read_name, wishes)))
    for name in names:
        if name not in records:
            raise PenstockError(
                f"There is no {name}. Resources in no file: {', '.join(removable) or 'none'}.", "See `penstock status`."
            )
        if name not in removable:
            raise PenstockError(
                f"{name} is still in a file, or the controller has not read the files again yet.",
                "Delete it from its file (in a cluster, with kubectl), and try again in a few seconds.",
            )
    _check_readers(contract, {records[name].uid: name for name in names})
    # Others do not hide a resource, such as the note that there are foreign ones.
    bad = [problem for problem in report.problems if problem.kind == "File" and problem.ready == "False"]
    if bad:
        raise NotReadyError(
            f"It is not known which resources are in no file, because {bad[0].name} has a problem: {bad[0].message}.",
            "Fix that problem, then run the command again.",
        )
    return [_doomed(name, records[name]) for name in names]


def read_name(text: str) -> str:
    """Returns KIND/NAMESPACE/NAME with the proper spelling of the kind, which may be in any case. Raises UsageError."""
    kind, _, rest = text.partition("/")
    namespace, _, name = rest.partition("/")
    if not namespace or not name or "/" in name:
        raise UsageError(f"{text!r} is not KIND/NAMESPACE/NAME.", "Write it like Subscription/default/billing.")
    if kind.lower() not in KINDS:
        raise UsageError(f"{kind!r} is not a kind that can be removed.", f"The kinds are {', '.join(KINDS.values())}.")
    return f"{KINDS[kind.lower()]}/{namespace}/{name}"


def _check_readers(contract: Contract, names: Mapping[str, str]) -> None:
    """Raises PenstockError for what would stay and reads from one of these. `names`: by uid."""
    readers = [
        subscription
        for subscription in contract.subscriptions
        if subscription.channel_uid in names and subscription.uid not in names
    ]
    if readers:
        channels = ", ".join(sorted({names[reader.channel_uid] for reader in readers}))
        raise PenstockError(
            f"{channels} cannot be removed while something reads from there: "
            f"{', '.join(reader.title for reader in readers)}.",
            f"Remove these too: add {' '.join(reader.title for reader in readers)}.",
        )


def _doomed(name: str, record: Channel | Subscription) -> RemovalTarget:
    if isinstance(record, Channel):
        return RemovalTarget(record.uid, name, topics=record.owned_topics)
    return RemovalTarget(record.uid, name, group=record.group)


def _ask(client: Mapping[str, Any], instance: str, doomed: Sequence[RemovalTarget]) -> None:
    store_requests(
        client, instance, [encode_request(RemovalRequest(removal_target.uid, time.time())) for removal_target in doomed]
    )


def _take_back(client: Mapping[str, Any], instance: str, doomed: Sequence[RemovalTarget]) -> None:
    """Withdraw the requests, so that nothing is removed after this command has ended."""
    try:
        store_requests(
            client, instance, [(REQUEST_KEY + removal_target.uid.encode(), None) for removal_target in doomed]
        )
    except NotReadyError as problem:
        raise NotReadyError(
            f"The removal was not completed, and the request could not be withdrawn: {problem}",
            "A controller may still carry out the request within two minutes. See `penstock status` after that.",
        ) from problem
    note("The removal was not completed. The request is withdrawn; resources that are already removed stay removed.")


def _wait(client: Mapping[str, Any], instance: str, doomed: Sequence[RemovalTarget], limit_s: float) -> None:
    """Wait until all their records and topics are gone. Raises NotReadyError."""
    end_s = time.monotonic() + limit_s
    while left := _left(client, instance, doomed):
        if time.monotonic() > end_s:
            raise NotReadyError(
                f"After {limit_s:g} s these still exist: {', '.join(left)}.",
                "Check that a controller runs (a worker of role all or controller); its log shows what prevents the "
                "removal.",
            )
        time.sleep(SPARING_S)


def _left(client: Mapping[str, Any], instance: str, doomed: Sequence[RemovalTarget]) -> list[str]:
    contract = read_contract(client, instance)
    served = {record.uid for record in contract.records}
    records = [removal_target.resource for removal_target in doomed if removal_target.uid in served]
    topics = {topic for removal_target in doomed for topic in removal_target.topics}
    if records or not topics:
        return records
    existing = KafkaAdmin(client).cluster().topics
    return sorted(f"topic {topic}" for topic in topics & existing.keys())
