"""`penstock send`: sends events by HTTP to a channel or broker, by the Client of the Python API.

Does not retry: it shows the worker's answer.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import typer
from cloudevents.core.v1.event import CloudEvent

from app.cli.options.given import not_together
from app.cli.output.format import Format, Output, print_json, print_table
from app.local.packaged import QUICKSTART
from app.operations.unknown_name import known_names, meant
from app.settings import load_settings
from app.timing import GLANCE_S
from knative.errors import PenstockError, UsageError
from penstock.client import ACCEPTED, Client, address_of
from penstock.events import content_type_of, make_event, to_message

_EXCLUSIVE = (("--channel", "--broker"), ("--channel", "--url"), ("--broker", "--url"), ("--server", "--url"))
_COLUMNS = {"id": "ID", "status": "STATUS", "ms": "MS", "reason": "REASON"}


def _complete_broker(context: typer.Context, incomplete: str) -> list[str]:
    # As in `_known_channels`: Kafka's client would add 0.15 s to every start.
    from app.cli.options.completion import complete_broker

    return complete_broker(context, incomplete)


def send(
    channel: Annotated[
        str, typer.Option("--channel", help=f"NAMESPACE/NAME of a channel; by default {QUICKSTART}.")
    ] = "",
    broker: Annotated[
        str,
        typer.Option(
            "--broker", help="NAMESPACE/NAME of a broker, instead of --channel.", autocompletion=_complete_broker
        ),
    ] = "",
    server: Annotated[
        str,
        typer.Option("--server", help="Address of the worker; by default this machine and the port in the settings."),
    ] = "",
    url: Annotated[str, typer.Option("--url", help="Complete URL, instead of --channel, --broker and --server.")] = "",
    type_: Annotated[str, typer.Option("--type", help="The event's type.")] = "dev.penstock.example",
    source: Annotated[str, typer.Option("--source", help="The event's source, a URI reference.")] = "/penstock/send",
    id_: Annotated[str, typer.Option("--id", help="The event's id; --count appends -1, -2, ... to it.")] = "",
    data: Annotated[str | None, typer.Option("--data", help="The event's data, as text.")] = None,
    data_file: Annotated[str, typer.Option("--data-file", help="A file with the data (- = standard input).")] = "",
    content_type: Annotated[
        str, typer.Option("--content-type", help="By default application/json if the data is JSON, else text/plain.")
    ] = "",
    key: Annotated[
        str, typer.Option("--key", help="The event's partitionkey attribute; events with the same key stay in order.")
    ] = "",
    attribute: Annotated[
        list[str] | None, typer.Option("--attribute", "-a", help="NAME=VALUE: another attribute; may be repeated.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="'Name: value': another HTTP header; may be repeated.")
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Number of events to send, in sequence.")] = 1,
    kafka: Annotated[
        str, typer.Option("--kafka", help="HOST:PORT of Kafka, to list channels if this channel does not exist.")
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """Send one event or many to a channel or broker.

    Exit code: 0 if all events were stored (202), 3 if the worker is not ready, else 1.

    \b
    Examples:
      penstock send --data '{"hello": "world"}'
      penstock send --channel default/quickstart --type order.placed --source /shop --key customer-7 --count 20
      penstock send --broker default/shop --type order.created -a amount=120
      penstock send --url http://localhost:8080/ -H 'Host: my-kafkachannel-service.mynamespace.svc.cluster.local'
      cat photo.jpg | penstock send --data-file - --content-type image/jpeg -o json
    """
    written = {"--channel": channel, "--broker": broker, "--server": server, "--url": url}
    for left, right in _EXCLUSIVE:
        not_together(left, right, both=written[left] and written[right])
    kind, name = ("broker", broker) if broker else ("channel", channel or QUICKSTART)
    client = Client(url or _channel_url(name, server, kind), headers=_pairs(header, ":", "--header"))
    body = _body(data, data_file)
    attributes = {"type": type_, "source": source, **_pairs(attribute, "=", "--attribute")}
    attributes["datacontenttype"] = content_type or content_type_of(body)
    if key:
        attributes["partitionkey"] = key
    base = id_ or str(uuid.uuid4())
    ids = [base] if count == 1 else [f"{base}-{number + 1}" for number in range(count)]
    rows = list(_post_all(client, (make_event({"id": event_id, **attributes}, body) for event_id in ids)))
    unknown = not url and all(row["status"] == HTTPStatus.NOT_FOUND for row in rows)
    if not (unknown and output is Format.TABLE):
        _report(rows, output)
    if unknown:
        raise unknown_channel(name, client.address, _known_channels(kafka), kind)
    _exit(rows)


def unknown_channel(
    channel: str, server: str, names: Mapping[str, Sequence[str]] | None, kind: str = "channel"
) -> PenstockError:
    """Returns the error when the worker does not serve the channel or broker. `names`: those in Kafka of each kind;
    None = Kafka did not answer."""
    what = f"{server} does not serve the {kind} {channel}"
    if names is None:
        return PenstockError(f"{what}.", f"`penstock status` lists the {kind}s.")
    if channel in names[kind]:
        return PenstockError(
            f"{what} yet, or the {kind} belongs to another installation.", "Try again, or check --server."
        )
    other = "broker" if kind == "channel" else "channel"
    if channel in names[other]:
        return PenstockError(f"{what}: {channel} is a {other}.", f"Write --{other} {channel}.")
    if names[other] and not names[kind]:
        name = names[other][0] if len(names[other]) == 1 else "NAMESPACE/NAME"
        return PenstockError(f"{what}; it has no {kind}, but {_names(other, names)}.", f"Write --{other} {name}.")
    hint = meant(channel, names[kind], f"Write --{kind} NAMESPACE/NAME.")
    return PenstockError(f"{what}; {known_names(names[kind])}", hint)


def _names(kind: str, names: Mapping[str, Sequence[str]]) -> str:
    return f"the {kind}{'s' if len(names[kind]) > 1 else ''} {', '.join(names[kind])}"


def _known_channels(kafka: str) -> dict[str, list[str]] | None:
    # Kafka's client adds 0.15 s to a start, so ask it only after the worker has answered that it has no such channel.
    from app.cli.options.kafka import kafka_client
    from app.operations.contract_snapshot import read_contract
    from knative.contract.records import BROKER

    try:
        contract = read_contract(kafka_client(kafka), load_settings().instance, GLANCE_S)
    except PenstockError:  # the worker's answer matters; Kafka may be unreachable from here
        return None
    names: dict[str, list[str]] = {"channel": [], "broker": []}
    for channel in contract.channels:
        names["broker" if channel.kind == BROKER else "channel"].append(f"{channel.namespace}/{channel.name}")
    return names


def _channel_url(channel: str, server: str, kind: str) -> str:
    try:
        return address_of(kind, channel, server or f"127.0.0.1:{load_settings().http_port}")
    except UsageError as problem:
        raise UsageError(f"--{kind} {problem.what}", problem.hint) from None


def _body(data: str | None, data_file: str) -> bytes:
    not_together("--data", "--data-file", both=data is not None and data_file)
    if data_file == "-":
        return sys.stdin.buffer.read()
    if data_file:
        try:
            return Path(data_file).read_bytes()
        except OSError as problem:
            raise UsageError(f"{data_file} cannot be read: {problem.strerror}.", "Check --data-file.") from problem
    return b'{"content": "Test Message"}' if data is None else data.encode()


def _pairs(texts: list[str] | None, separator: str, option: str) -> dict[str, str]:
    pairs = {}
    for text in texts or ():
        name, divider, value = text.partition(separator)
        if not divider or not name.strip():
            raise UsageError(f"{option} {text!r} is incomplete.", f"Write NAME{separator}VALUE.")
        pairs[name.strip()] = value.strip()
    return pairs


def _post_all(client: Client, events: Iterable[CloudEvent]) -> Iterator[dict[str, object]]:
    """Yields one row per event: id, status, ms, reason."""
    with client:
        for event in events:
            message = to_message(event)
            began = time.perf_counter()
            answer = client.post(*message)
            ms = round((time.perf_counter() - began) * 1000, 1)
            yield {"id": event.get_id(), "status": answer.status, "ms": ms, "reason": answer.reason}


def _report(rows: Sequence[Mapping[str, object]], output: Format) -> None:
    accepted = sum(row["status"] == ACCEPTED for row in rows)
    if output is Format.JSON:
        print_json({"sent": len(rows), "accepted": accepted, "events": list(rows)})
    else:
        print_table(_COLUMNS, rows[:20], "")
        more = f" ({len(rows) - 20} more are not shown)" if len(rows) > 20 else ""
        print(f"{accepted} of {len(rows)} accepted{more}")


def _exit(rows: Sequence[Mapping[str, object]]) -> None:
    if any(row["status"] != ACCEPTED for row in rows):
        raise typer.Exit(3 if all(row["status"] in (ACCEPTED, 429, 503) for row in rows) else 1)
