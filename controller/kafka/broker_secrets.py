"""Which Secrets of Brokers are not in PENSTOCK_KAFKA_SECRETS, or not valid. Does not ask Kafka: workers do that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from controller.plan.actions import AnyObject
from knative.contract.broker_secrets import SecretProblem, is_reference
from knative.resources.brokers import SECRET_KEY
from knative.resources.values import ConfigMap
from tables.file_signatures import Signature, signature
from tables.kafka.connection.broker_secrets import read_broker_secret
from tables.kafka.connection.secret import paths
from tables.kafka.loop_thread import call_in_thread

_LIMIT_S = 10.0  # for files of a mounted volume

_Reads = Mapping[str, tuple[Signature, SecretProblem | None]]  #: by reference


class BrokerSecretFiles:
    """Reads a folder again when one of its files has changed. Event loop only."""

    def __init__(self, root: Path | None) -> None:
        """`root` None: Secrets are not used."""
        self._root = root
        self._reads: _Reads = {}

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
        before = self._reads
        self._reads = await call_in_thread(lambda: _read(root, named, before), _LIMIT_S, "broker-secrets")
        return self._found()

    async def latest(self, objects: Iterable[AnyObject]) -> Mapping[str, SecretProblem]:
        """The same, or what was found before if the files cannot be read in time."""
        try:
            return await self.problems(objects)
        except TimeoutError:
            return self._found()

    def _found(self) -> Mapping[str, SecretProblem]:
        return {reference: problem for reference, (_, problem) in self._reads.items() if problem is not None}


def _read(root: Path, named: Iterable[str], before: _Reads) -> _Reads:
    found = {}
    for reference in sorted(named):
        # What changes while it is read has another signature the next time.
        seen = _signature(root, reference)
        if (last := before.get(reference)) is not None and last[0] == seen:
            found[reference] = last
        else:
            read = read_broker_secret(root, reference)
            found[reference] = seen, read if isinstance(read, SecretProblem) else None
    return found


def _signature(root: Path, reference: str) -> Signature:
    if not is_reference(reference):
        return ()
    folder = root / reference
    return signature((folder, *paths(folder)))
