"""Whether Kafka accepts credentials that are not used yet: every broker is asked, and what the user may do with topics.

Brokers learn of new credentials one after the other, and each client needs all brokers. One that refuses them is found
at once; one that does not answer says nothing about them, and is left out if another has answered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import KafkaException

from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaDenied, KafkaFailed, KafkaNotFound, KafkaNotYet, KafkaUnavailable, leave_out
from tables.timing import ANSWER_S

_BROKERS_AT_ONCE = 8
_MISSING_LEFT_OUT = leave_out(KafkaNotFound)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why Kafka does not accept settings."""

    why: str
    away: bool = False  #: Kafka does not answer, which says nothing about them


def refused(
    kafka: Mapping[str, Any],
    needs: Mapping[str, Collection[str]],
    failed: Callable[[str, KafkaFailed], None] = _MISSING_LEFT_OUT,
) -> Refusal | None:
    """Try to connect to every broker with these librdkafka client settings. None = Kafka accepts them. `needs`: topics
    that their user must be allowed to describe -> operations that it needs besides, by Kafka's names. `failed` gets
    each topic that cannot be described, and may raise; by default only those are left out that do not exist. Blocks."""
    try:
        _try({**kafka, "log_level": 0}, needs, ANSWER_S, failed)  # the reason is logged once, by the caller
    except KafkaUnavailable as problem:
        # Without a hint it was refused, and the reason says what to correct.
        return Refusal(f"Kafka does not answer ({problem.why})", away=True) if problem.hint else Refusal(problem.why)
    except KafkaFailed as problem:
        return Refusal(str(problem), away=isinstance(problem, KafkaNotYet))
    except KafkaException as problem:
        return Refusal(f"the Kafka client rejects them ({problem.args[0].name()})")  # more could show a value
    return None


def _try(
    kafka: Mapping[str, Any],
    needs: Mapping[str, Collection[str]],
    limit_s: float,
    on_error: Callable[[str, KafkaFailed], None],
) -> None:
    """Raises KafkaFailed if a broker refuses them, or if an operation is missing. `limit_s`: of each request.
    `on_error`: as of `KafkaAdmin.describe_topics`, which comes last."""
    admin = KafkaAdmin(kafka, limit_s)
    addresses = admin.cluster().addresses
    with ThreadPoolExecutor(min(_BROKERS_AT_ONCE, len(addresses)) or 1) as threads:
        for refusal in threads.map(partial(_refusal, kafka, limit_s), addresses):
            if refusal is not None:
                raise refusal
    topics = admin.describe_topics(needs, on_error, operations=True)
    missing = [
        f"{operation.capitalize()} on topic {name}"
        for name, about in topics.items()
        if about.operations  # none at all: this Kafka does not say
        for operation in sorted(set(needs[name]) - about.operations)
    ]
    if missing:
        raise KafkaDenied(f"the user has no permission; grant {', '.join(missing)}")


def _refusal(kafka: Mapping[str, Any], limit_s: float, address: str) -> KafkaUnavailable | None:
    """Returns why the broker at this address refuses the settings; None = it does not, or does not answer."""
    # A client that knows one broker only cannot ask another.
    admin = KafkaAdmin({**kafka, "bootstrap.servers": address}, limit_s)
    try:
        admin.cluster()
    except KafkaUnavailable as problem:
        if problem.hint:  # it does not answer
            return None
        return KafkaUnavailable(f"broker {address}: {problem.why}", f"{problem.why} (broker {address})")
    finally:
        admin.close()
    return None
