"""What `penstock up` says when everything is up: the one command to try first. Reads only the resource files."""

from __future__ import annotations

from app.local.kafka.config import DEFAULT_PORT
from app.local.kafka.ports import LOOPBACK
from app.local.probes import resources_in
from app.local.stack import StackConfig
from knative.resources.brokers import KAFKA_CLASS
from knative.resources.values import Broker, KafkaChannel
from web.console.safety import Mode

_HTTP_PORT = 8080
_CHANNEL = "default/quickstart"


def banner(config: StackConfig, bootstrap: str, command: str = "penstock") -> list[str]:
    """Returns the lines to print and copy. `bootstrap`: of Kafka; `command`: how to call penstock from here."""
    resources = resources_in(config.resources)
    channels: list[KafkaChannel | Broker] = [channel for channel in resources if isinstance(channel, KafkaChannel)]
    channels += [broker for broker in resources if isinstance(broker, Broker) and broker.class_ == KAFKA_CLASS]
    look = []
    if config.console is not Mode.OFF and config.admin_port:
        look = ["", "See what happens to the event:", "", f"  http://localhost:{config.admin_port}"]
    if not channels:
        return [
            f"There is no channel or broker in {config.resources} yet. Files that you add are served within 2 s.",
            *look,
        ]
    first = channels[0]
    name = f"{first.namespace}/{first.name}"
    to = f" --broker {name}" if isinstance(first, Broker) else "" if name == _CHANNEL else f" --channel {name}"
    settings = [] if bootstrap == f"{LOOPBACK}:{DEFAULT_PORT}" else [f"PENSTOCK_KAFKA={bootstrap}"]
    settings += [] if config.http_port == _HTTP_PORT else [f"PENSTOCK_HTTP_PORT={config.http_port}"]
    exports = (
        ["Before you run commands in another terminal:", "", f"  export {' '.join(settings)}", ""] if settings else []
    )
    return [*exports, "Send an event from another terminal:", "", f"  {command} send{to}", *look]
