"""Checks over HTTP whether the worker on this machine and its subscriptions are ready, and reports what is missing.

Does not wait: callers repeat the check.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from app.timing import GLANCE_S
from controller.source.directory import Directory
from controller.status.files import status_file
from knative.errors import UsageError
from knative.resources.brokers import KAFKA_CLASS
from knative.resources.values import Broker, KafkaChannel, Resource, Subscription, Trigger

#: Field of `/readyz`, its value in a ready worker, and what another value means.
_CONDITIONS = (
    ("draining", False, "the worker is stopping"),
    ("producer", True, "the worker has not connected to Kafka yet"),
    ("contract", True, "the worker has not read its resources in Kafka yet"),
    ("secrets", True, "the worker has not tried the Secrets of the brokers yet"),
)
#: Opens URLs of this machine without the proxy of `http_proxy`, which cannot reach its loopback.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def probe_worker(base: str) -> str | None:
    """Returns why the worker at `base` (http://host:port) is not ready; None = it is."""
    status, body = _get(f"{base}/readyz")
    if status == 200:
        return None
    return "the worker does not answer yet" if status == 0 else of_readyz(status, body)


def of_readyz(status: int, body: str) -> str:
    """Returns why a worker is not ready, from what `/readyz` answers."""
    try:
        fields = json.loads(body)
    except ValueError:
        fields = {}
    if problem := fields.get("problem"):
        return f"the worker cannot read its resources in Kafka: {problem}"
    for name, is_good, why in _CONDITIONS:
        if fields.get(name, is_good) is not is_good:
            return why
    return f"the worker is not ready ({status})"


def subscribers_not_ready(base: str, channel: str, expected: int, state: Path) -> str | None:
    """Returns why `channel` (namespace/name) does not have `expected` ready subscriptions; None = it has. `state`: the
    directory of the statuses, which has their names."""
    status, body = _get(f"{base}/subscribers/{channel}")
    if status != 200:
        return f"{channel} is not served yet"
    return of_subscribers(channel, json.loads(body)["subscribers"], expected, state)


def of_subscribers(channel: str, rows: Sequence[Mapping[str, str]], expected: int, state: Path) -> str | None:
    """Returns what `subscribers_not_ready` returns, from the rows of the page."""
    for row in rows:
        if row["ready"] != "True":
            who = _named(state, row["uid"]) or f"a subscription of {channel}"
            return f"{who} is not ready: {row['message'] or 'no worker has reported it yet'}"
    return None if len(rows) >= expected else f"{channel} has {len(rows)} of {expected} subscriptions"


def _named(state: Path, uid: str) -> str | None:
    """Returns kind, namespace and name of the subscription or trigger with this uid; None = it has no status yet."""
    for file in state.glob("*/*.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):  # the controller writes them meanwhile
            metadata = json.loads(file.read_text("utf-8"))["metadata"]
            if metadata["uid"] == uid:
                return f"{file.parent.name} {metadata['namespace']}/{metadata['name']}"
    return None


def resources_in(folder: Path) -> list[Resource]:
    """Returns what the files of a folder describe, as the controller reads them. Those that are wrong are left out: the
    worker reports them.

    Raises UsageError when there is no such folder.
    """
    if not folder.is_dir():
        raise UsageError(
            f"There is no directory {folder}.", "Name a directory with YAML files of resources: --resources DIR."
        )
    return [written.resource for written in Directory(folder).scan().objects]


def counted(resources: Sequence[Resource]) -> str:
    """Returns the number of resources of each kind: "1 KafkaChannel, 2 Subscriptions"."""
    kinds = Counter(resource.kind for resource in resources)
    return ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in kinds.items()) or "nothing yet"


def subscriptions_by_channel(resources: Sequence[Resource]) -> dict[str, int]:
    """Returns each channel and broker (namespace/name) -> how many subscriptions or triggers it will have. A broker
    with the name of a channel is left out: the page of subscribers shows the channel."""
    references = [
        f"{resource.namespace}/{resource.channel}" for resource in resources if isinstance(resource, Subscription)
    ]
    triggers = [f"{resource.namespace}/{resource.broker}" for resource in resources if isinstance(resource, Trigger)]
    brokers = [
        f"{resource.namespace}/{resource.name}"
        for resource in resources
        if isinstance(resource, Broker) and resource.class_ == KAFKA_CLASS
    ]
    channels = [f"{resource.namespace}/{resource.name}" for resource in resources if isinstance(resource, KafkaChannel)]
    return {broker: triggers.count(broker) for broker in brokers} | {
        channel: references.count(channel) for channel in channels
    }


def former_address(state: Path, resources: Sequence[Resource]) -> str | None:
    """Returns which subscription or trigger is still delivered to the address of a former start; None = none is.

    A worker serves what is in Kafka at once. The controller reads the files a moment later; it may wait for the lock of
    the former one until then. `state`: the directory of the statuses.
    """
    for resource in resources:
        if not isinstance(resource, Subscription | Trigger) or resource.subscriber.ref is not None:
            continue
        uri = _address(state, resource)
        if uri is not None and urlsplit(uri).netloc != urlsplit(resource.subscriber.uri).netloc:
            return f"{resource.kind} {resource.namespace}/{resource.name} is still delivered to {urlsplit(uri).netloc}"
    return None


def _address(state: Path, resource: Subscription | Trigger) -> str | None:
    """Returns the address in the status of this object; None without a status."""
    try:
        document = json.loads(status_file(state, resource.kind, resource.namespace, resource.name).read_text("utf-8"))
    except FileNotFoundError:
        return None
    status = document["status"]
    return str(status.get("subscriberUri") or status.get("physicalSubscription", {}).get("subscriberUri", ""))


def _get(url: str) -> tuple[int, str]:
    """Returns status and body; status 0 = no answer."""
    try:
        with DIRECT.open(url, timeout=GLANCE_S) as answer:
            return answer.status, answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as answer:
        return answer.code, answer.read().decode("utf-8", "replace")
    except OSError:
        return 0, ""
