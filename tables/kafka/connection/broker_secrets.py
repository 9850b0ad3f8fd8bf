"""Reads the Secrets of Brokers: in the folder of PENSTOCK_KAFKA_SECRETS, each has a folder NAMESPACE/NAME."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from knative.contract.broker_secrets import INVALID, NOT_FOUND, SecretProblem, is_reference
from knative.errors import UsageError
from tables.file_signatures import Signature, signature
from tables.kafka.connection.secret import SecretNotValid, paths, read_keys, secret_settings
from tables.kafka.loop_thread import call_in_thread
from tables.timing import ANSWER_S

Found = tuple[dict[str, str], dict[str, str]]  #: keys of the Secret, librdkafka settings
_Reads = Mapping[str, tuple[Signature, SecretProblem | None]]  #: by reference


def read_broker_secret(root: Path | None, reference: str, *, in_memory: bool = False) -> Found | SecretProblem:
    """Returns what the folder of a Secret has, or why it cannot be used. `root` None: the setting is empty.
    `in_memory`: as for `secret_settings`. The message never shows a value."""
    if not is_reference(reference):
        return SecretProblem(
            INVALID, f"{reference[:320]!r} is not a valid NAMESPACE/NAME of a Secret; correct the ConfigMap"
        )
    if root is None:
        message = f"PENSTOCK_KAFKA_SECRETS is not set; set it to a folder that has {reference}"
        return SecretProblem(NOT_FOUND, message)
    folder = root / reference
    try:
        if not folder.is_dir():
            return SecretProblem(NOT_FOUND, f"PENSTOCK_KAFKA_SECRETS has no folder {reference}; mount the Secret there")
        keys = read_keys(folder)
        return keys, secret_settings(keys, folder, in_memory=in_memory)
    except SecretNotValid as problem:
        return SecretProblem(INVALID, f"the Kafka secret {reference} is not valid: {problem.problems}")
    except (UsageError, OSError) as problem:  # it is gone again, or this process may not read it
        why = getattr(problem, "strerror", None) or "its folder does not exist"
        return SecretProblem(INVALID, f"the Kafka secret {reference} cannot be read ({why})")


class BrokerSecretFiles:
    """Which of them cannot be used. Reads a folder again when one of its files has changed. Does not ask Kafka: workers
    do that. Event loop only."""

    def __init__(self, root: Path | None) -> None:
        """`root` None: Secrets are not used."""
        self._root = root
        self._reads: _Reads = {}

    async def problems(self, references: Collection[str]) -> Mapping[str, SecretProblem]:
        """Returns problems by reference. Raises TimeoutError if the files cannot be read in time."""
        if (root := self._root) is None or not references:
            return {}
        before = self._reads
        self._reads = await call_in_thread(lambda: _read(root, references, before), ANSWER_S, "broker-secrets")
        return self._last_problems()

    async def latest(self, references: Collection[str]) -> Mapping[str, SecretProblem]:
        """Returns problems by reference; the last known ones if the files cannot be read in time."""
        try:
            return await self.problems(references)
        except TimeoutError:
            return self._last_problems()

    def _last_problems(self) -> Mapping[str, SecretProblem]:
        return {reference: problem for reference, (_, problem) in self._reads.items() if problem is not None}


def _read(root: Path, references: Iterable[str], before: _Reads) -> _Reads:
    reads = {}
    for reference in sorted(references):
        # What changes while it is read has another signature the next time.
        seen = _signature(root, reference)
        if (last := before.get(reference)) is not None and last[0] == seen:
            reads[reference] = last
        else:
            read = read_broker_secret(root, reference)
            reads[reference] = seen, read if isinstance(read, SecretProblem) else None
    return reads


def _signature(root: Path, reference: str) -> Signature:
    if not is_reference(reference):
        return ()
    folder = root / reference
    return signature((folder, *paths(folder)))
