"""The folder of PENSTOCK_KAFKA_SECRET while a worker runs: changed credentials are used once Kafka accepts them.

    folder changes -> valid? -> does Kafka accept it? -> `kafka` is replaced -> everybody makes a new client
                        | no           | no
                        +--------------+--> the former ones stay in use, and both questions are asked again

A mistake such as a wrong password cuts nobody off, and neither does a broker that does not know of the new ones yet. Of
permissions, only those on the internal topics are asked: a user that lacks others is noticed when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from confluent_kafka import KafkaException

from knative.errors import UsageError
from tables.kafka.acceptance import try_credentials
from tables.kafka.connection.live_settings import LiveSettings
from tables.kafka.connection.secret import paths, read_keys, secret_settings
from tables.kafka.errors import KafkaFailed, KafkaNotFound, KafkaNotYet, KafkaUnavailable, leave_out

log = structlog.get_logger(__name__)

_ASK_LIMIT_S = 5.0
_MISSING_LEFT_OUT = leave_out(KafkaNotFound)
Found = tuple[Mapping[str, str], Mapping[str, Any]]  #: keys of the Secret, librdkafka settings


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why Kafka does not accept settings."""

    why: str
    away: bool = False  #: Kafka does not answer, which says nothing about them


def refused(
    settings: Mapping[str, Any],
    needs: Mapping[str, Collection[str]],
    failed: Callable[[str, KafkaFailed], None] = _MISSING_LEFT_OUT,
) -> Refusal | None:
    """Try to connect to every broker with these settings. None = Kafka accepts them. `needs`: topics that their user
    must be allowed to describe -> operations that it needs besides, by Kafka's names. `failed` gets each topic that
    cannot be described, and may raise; by default only those are left out that do not exist. Blocks."""
    try:
        quiet = {**settings, "log_level": 0}  # the reason is logged once, by us
        try_credentials(quiet, needs, _ASK_LIMIT_S, failed)
    except KafkaUnavailable as problem:
        # Without a hint it was refused, and the reason says what to correct.
        return Refusal(f"Kafka does not answer ({problem.why})", away=True) if problem.hint else Refusal(problem.why)
    except KafkaFailed as problem:
        return Refusal(str(problem), away=isinstance(problem, KafkaNotYet))
    except KafkaException as problem:
        return Refusal(f"the Kafka client rejects them ({problem.args[0].name()})")  # more could show a value
    return None


class KafkaSecret:
    """`kafka` has librdkafka client settings as soon as `use` was called for the first time."""

    def __init__(self, folder: Path, others: Mapping[str, Any], needs: Mapping[str, Collection[str]]) -> None:
        """`others`: settings that are not in the folder. `needs`: topic -> what its user must be allowed to do."""
        self.kafka = LiveSettings()
        self.paths = paths(folder)
        self._folder, self._others, self._needs = folder, others, needs
        self._keys: Mapping[str, str] = {}

    def read(self) -> Found:
        """What the folder has. Blocks. Raises UsageError if it is not valid, or if Kafka does not accept it; except for
        the first time, when Kafka may not run yet."""
        keys = read_keys(self._folder)
        settings = {**self._others, **secret_settings(keys, self._folder, in_memory=True)}
        if self._keys and keys != self._keys and (refusal := refused(settings, self._needs)) is not None:
            raise UsageError(
                f"The changed credentials in {self._folder} are not used yet: {refusal.why}.",
                "The former ones stay in use until Kafka accepts these.",
            )
        return keys, settings

    def use(self, found: Found) -> None:
        """Have every client made again, if something is different."""
        keys, settings = found
        changed = sorted(name for name in keys.keys() | self._keys.keys() if keys.get(name) != self._keys.get(name))
        if not changed:
            return
        self.kafka.replace(settings)
        if self._keys:
            log.info("Kafka credentials changed: every client is made again and uses them", keys=changed)
        self._keys = keys
