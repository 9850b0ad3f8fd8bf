"""Finds the channel of a request by its Host and path. Pure.

| Request | Goes to |
|---|---|
| Host `<channel>-kn-channel.<namespace>.svc[...]`, path `/` | that KafkaChannel |
| Host published by one channel as its address, path `/` | that channel; none if two publish it |
| path `/channels/<namespace>/<channel>` | that KafkaChannel |
| path `/<namespace>/<broker>` or `/brokers/<namespace>/<broker>` | that Broker |

Before the contract was read to its end, an unknown channel is `NotYet`, never `NotFound`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from knative.contract.host_table import channels_by_host
from knative.contract.records import BROKER, CHANNEL, Channel

HOW = (
    "send events for a channel with POST /channels/<namespace>/<channel>, or with POST / and Host "
    "<channel>-kn-channel.<namespace>.svc or a host that the channel publishes; for a broker with POST "
    "/<namespace>/<broker>"
)
_SUFFIX = b"-kn-channel"
_KINDS = {"channels": CHANNEL, "brokers": BROKER}  #: first part of a path -> kind


class ContractView(Protocol):
    """The part of the contract that ingress needs (`tables/contract_table`)."""

    @property
    def loaded(self) -> bool:
        """Whether the contract was read to its end once."""

    @property
    def channels(self) -> Mapping[str, Channel]:
        """The channels by uid."""

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the event loop when the contract is loaded, and after each change."""


@dataclass(frozen=True, slots=True)
class NotFound:
    """The channel, the broker or the URL does not exist."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotYet:
    """The channel is not known yet; the client should try again."""

    reason: str


Resolved = Channel | NotFound | NotYet


def split_path(path: bytes) -> tuple[str, str, str] | None:
    """-> (kind, namespace, name); ("", "", "") for `/`; None if this is not the path of an ingress URL."""
    if path == b"/":
        return "", "", ""
    try:
        parts = path.decode("ascii").removesuffix("/").split("/")
    except UnicodeDecodeError:
        return None
    if parts[0] or not all(parts[1:]):
        return None
    if len(parts) == 4 and parts[1] in _KINDS:
        return _KINDS[parts[1]], parts[2], parts[3]
    if len(parts) == 3:
        return BROKER, parts[1], parts[2]
    return None


def plain_host(host: bytes) -> bytes:
    """Returns a Host value in lower case, without port and trailing dot."""
    name = host.lower()
    if name.startswith(b"["):
        return name.partition(b"]")[0] + b"]"
    return name.partition(b":")[0].rstrip(b".")


def split_host(host: bytes) -> tuple[str, str] | None:
    """`<channel>-kn-channel.<namespace>.svc[.<domain>]` (plain) -> (namespace, channel); None for any other host."""
    labels = host.split(b".")
    if len(labels) < 3 or labels[2] != b"svc" or not labels[0].endswith(_SUFFIX):
        return None
    channel = labels[0][: -len(_SUFFIX)]
    return (labels[1].decode("latin-1"), channel.decode("latin-1")) if channel and labels[1] else None


class ChannelResolver:
    """The addresses of one state of the contract."""

    def __init__(self, channels: Iterable[Channel], loaded: bool = True) -> None:
        self._loaded = loaded
        self._named: dict[tuple[str, str, str], Channel] = {}
        # Sorted, so that all processes agree while a channel is removed and another one of its name is there.
        in_order = sorted(channels, key=lambda channel: (channel.namespace, channel.name, channel.uid))
        for channel in sorted(in_order, key=lambda channel: channel.unlisted):
            self._named.setdefault(channel.key, channel)
        self._hosted = {host.encode(): channel for host, channel in channels_by_host(in_order).items()}

    def resolve(self, host: bytes | None, path: bytes) -> Resolved:
        """Returns the channel of a URL, or why there is none. `path` as on the wire, without query."""
        address = split_path(path)
        if address is None:
            return NotFound(f"nothing is served under this path; {HOW}")
        if not self._loaded:
            return NotYet("the list of channels has not been read yet")
        kind, namespace, name = address
        if kind:
            channel = self._named.get(address)
            return _served(channel) or NotFound(f"there is no {kind} {namespace}/{name}; {HOW}")
        return self._by_host(plain_host(host or b""))

    def _by_host(self, host: bytes) -> Resolved:
        address = split_host(host)
        if address is not None:
            channel = self._named.get((CHANNEL, *address))
            if channel is None and host in self._hosted:
                channel = self._hosted[host]
            return _served(channel) or NotFound(f"there is no {CHANNEL} {'/'.join(address)}; {HOW}")
        hosted = _served(self._hosted.get(host))
        return hosted or NotFound(f"no channel has the address {host.decode('latin-1')!r}; {HOW}")


def _served(channel: Channel | None) -> Channel | NotYet | None:
    if channel is None or not channel.unlisted:
        return channel
    # Not `NotFound`: a client must not drop its events because a file is missing for a while.
    return NotYet(
        f"{channel.kind} {channel.namespace}/{channel.name} is not served, because it is in no file of the controller"
    )
