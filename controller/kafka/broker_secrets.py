"""Which Secrets of Brokers are not in PENSTOCK_KAFKA_SECRETS, or not valid. Does not ask Kafka: workers do that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from controller.plan.actions import AnyObject
from knative.contract.broker_secrets import SecretProblem, is_reference
from knative.file_signature import FileSignature, file_signature
from knative.resources.brokers import SECRET_KEY
from knative.resources.values import ConfigMap
from tables.kafka.broker_secrets import read_broker_secret
from tables.kafka.loop_thread import call_in_thread
from tables.kafka.secret import paths

_LIMIT_S = 10.0  # for files of a mounted volume

_Signatures = tuple[FileSignature | None, ...]


class BrokerSecretFiles:
    """Reads a folder again when one of its files has changed. Event loop only."""

    def __init__(self, root: Path | None) -> None:
        """`root` None: Secrets are not used."""
        self._root = root
        self._read: dict[str, tuple[_Signatures, SecretProblem | None]] = {}

    async def problems(self, objects: Iterable[AnyObject]) -> Mapping[str, SecretProblem]:
        """By reference, of the Secrets that the ConfigMaps name. Raises TimeoutError if the files cannot be read in
        time."""
        if (root := self._root) is None:
            return {}
        named = {
            f"{one.resource.namespace}/{name}"
            for one in objects
            if isinstance(one.resource, ConfigMap) and (name := one.resource.data.get(SECRET_KEY, "").strip())
        }
        if not named:
            return {}
        before = self._read
        self._read = await call_in_thread(lambda: _read(root, named, before), _LIMIT_S, "broker-secrets")
        return {reference: problem for reference, (_, problem) in self._read.items() if problem is not None}


def _read(
    root: Path, named: Iterable[str], before: Mapping[str, tuple[_Signatures, SecretProblem | None]]
) -> dict[str, tuple[_Signatures, SecretProblem | None]]:
    found = {}
    for reference in sorted(named):
        # What changes while it is read has another signature the next time.
        seen = _signatures(root, reference)
        if (last := before.get(reference)) is not None and last[0] == seen:
            found[reference] = last
        else:
            read = read_broker_secret(root, reference)
            found[reference] = seen, read if isinstance(read, SecretProblem) else None
    return found


def _signatures(root: Path, reference: str) -> _Signatures:
    if not is_reference(reference):
        return ()
    folder = root / reference
    return tuple(_signature(path) for path in (folder, *paths(folder)))


def _signature(path: Path) -> FileSignature | None:
    try:
        return file_signature(path.stat())
    except OSError:
        return None
