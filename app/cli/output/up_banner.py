"""What `penstock up` prints when everything is up: an event to send, and where to look.

Every command in it can be copied as it is. Reads only the resource files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from app.local.kafka.config import DEFAULT_PORT
from app.local.kafka.ports import LOOPBACK
from app.local.probes import host_of, resources_in
from app.local.stack import StackConfig
from knative.resources.brokers import KAFKA_CLASS
from knative.resources.values import Broker, KafkaChannel

_HTTP_PORT = 8080
_CHANNEL = "default/quickstart"


def banner(
    config: StackConfig, bootstrap: str, logs: Sequence[Path | None], seconds: float, command: str = "penstock"
) -> list[str]:
    """The lines to print after a start that took `seconds`; `command`: how to call penstock from here."""
    resources = resources_in(config.resources)
    channels: list[KafkaChannel | Broker] = [one for one in resources if isinstance(one, KafkaChannel)]
    channels += [one for one in resources if isinstance(one, Broker) and one.class_ == KAFKA_CLASS]
    kafka = "" if bootstrap == f"{LOOPBACK}:{DEFAULT_PORT}" else f" --kafka {bootstrap}"
    namesakes = [one for one in channels if (one.namespace, one.name) == (channels[0].namespace, channels[0].name)]
    events = _channel_option(channels[0], with_kind=len(namesakes) > 1) + kafka if channels else ""
    lines = [f"Penstock is up after {seconds:.1f} s. Ctrl-C stops it.", ""]
    if channels:
        lines += _to_send(config, channels[0], command)
    else:
        lines += [
            f"There is no channel and no broker in {config.resources} yet. Files that you add are served within 2 s.",
            "",
        ]
    lines.append("Look at:")
    if channels:
        name = f"{channels[0].namespace}/{channels[0].name}"
        lines.append(f"  subscriptions   http://localhost:{config.http_port}/subscribers/{name}")
    if config.admin_port:
        metrics = f"http://localhost:{config.admin_port}/metrics"
        lines.append(f"  metrics         curl -s {metrics} | grep consumed_msg_count")
    lines.append(f"  readiness       {command} status{kafka}")
    if channels:
        lines.append(f"  stored events   {command} receive --last 10{events}")
        lines.append(f"  dead letters    {command} receive --dlq --from-beginning{events}")
    lines += [
        f"  resources       {config.resources} (changes there take effect within 2 s)",
        f"  their statuses  {config.home / 'state'}",
        f"  logs            {', '.join(str(log) for log in logs if log is not None)}",
        "",
    ]
    if config.subscriber_port:
        lines.append(f"The sample subscriber (port {config.subscriber_port}) prints each event that it receives:")
    return lines


def _channel_option(channel: KafkaChannel | Broker, *, with_kind: bool = False) -> str:
    """`with_kind`: a name alone might be that of a channel and of a broker."""
    name = f"{channel.namespace}/{channel.name}"
    if with_kind:
        return f" --channel {'Broker' if isinstance(channel, Broker) else 'KafkaChannel'}/{name}"
    return "" if name == _CHANNEL else f" --channel {name}"


def _to_send(config: StackConfig, channel: KafkaChannel | Broker, command: str) -> list[str]:
    ingress = f"http://localhost:{config.http_port}"
    server = "" if config.http_port == _HTTP_PORT else f" --server localhost:{config.http_port}"
    if isinstance(channel, Broker):
        name = f"{channel.namespace}/{channel.name}"
        return [
            "Send an event to the broker:",
            "",
            curl(f"{ingress}/{name}"),
            "",
            "or twenty with a key:",
            "",
            f"{command} send --count 20 --key customer-7 --broker {name}{server}",
            "",
        ]
    path = f"/channels/{channel.namespace}/{channel.name}"
    example = not _channel_option(channel) and config.subscriber_port
    return [
        "Send an event to the channel's own address, as in a cluster:",
        "",
        curl(f"{ingress}/", host_of(channel, config.cluster_domain)),
        "",
        "or by its path, which needs no Host:",
        "",
        curl(f"{ingress}{path}"),
        "",
        "or twenty with a key" + ("; the subscriber /picky rejects some of them:" if example else ":"),
        "",
        f"{command} send --count 20 --key customer-7{_channel_option(channel)}{server}",
        "",
    ]


def curl(url: str, host: str = "") -> str:
    """The event of the eventing-kafka documentation, as a shell command."""
    host_header = f'-H "Host: {host}" ' if host else ""
    return (
        r"""echo -e "{\n  \"id\": \"12345\",\n  \"originationTime\": \"$(date -u +'%Y-%m-%dT%H:%M:%S.000000000Z')\","""
        r"""\n  \"content\": \"Test Message\"\n}" | curl -X POST -H "Content-Type: application/json" """
        r"""-H "cache-control: no-cache" -H "ce-id: 123" -H "ce-source: /testsource" -H "ce-specversion: 1.0" """
        rf"""-H "ce-type: test.type.v1" {host_header}--data @- -v {url}"""
    )
