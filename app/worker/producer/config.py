"""Settings of the Kafka producer, and what errors of its client mean for the sender of a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError

from app.settings.load import Settings
from knative.ports import ProduceFailure, ProduceProblem
from tables.kafka.connection import CREATES_NO_TOPICS

_CLIENT_TIMEOUT_S = 300.0  # added to ours, so that librdkafka's own time-out is never reached (see `producer`)
_STATISTICS_S = 5.0
_DLQ_EXTRA_BYTES = 524_288  # how much larger than the largest event a record of a DLQ topic may be
TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
_REFUSED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_RECORD,
    }
)


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """`kafka`: librdkafka client settings, `bootstrap.servers` among them. Sizes in bytes, times as named."""

    kafka: Mapping[str, Any]
    name: str  #: client id, and the label of its metrics
    timeout_s: float = 10.0
    linger_ms: int = 2  #: how long records gather under load; with 0 each is handed to the client at once
    message_bytes_max: int = 1_048_576 + 524_288
    queue_bytes_max: int = 128 * 1_048_576
    queue_records_max: int = 100_000
    batch_records_max: int = 10_000
    compression: str = "lz4"
    epochs_max: int = 8_192  #: then a new client takes over, long before the epoch starts again at 0

    def client(self) -> dict[str, Any]:
        """Settings for librdkafka."""
        return {
            **CREATES_NO_TOPICS,
            "acks": "all",
            "enable.idempotence": True,
            "partitioner": "murmur2_random",  # same partition for a key as Java producers
            "compression.type": self.compression,
            "linger.ms": 0,  # records gather in `KafkaProducer`
            "delivery.timeout.ms": int((self.timeout_s + _CLIENT_TIMEOUT_S) * 1000),
            "request.timeout.ms": int(self.timeout_s * 1000),
            "message.max.bytes": self.message_bytes_max,
            "batch.num.messages": self.batch_records_max,
            "queue.buffering.max.messages": self.queue_records_max,
            "queue.buffering.max.kbytes": self.queue_bytes_max // 1024,
            "topic.metadata.refresh.interval.ms": 30_000,  # added partitions are used within this time
            "reconnect.backoff.max.ms": 2_000,
            "statistics.interval.ms": int(_STATISTICS_S * 1000),
            "client.id": self.name,
            **self.kafka,
            "log_level": 3,  # errors only: while a broker starts, the client warns of faults that it repairs itself
        }


def producer_config(settings: Settings, kafka: Mapping[str, Any], name: str) -> ProducerConfig:
    """Of a process with these settings."""
    return ProducerConfig(
        kafka=kafka,
        name=name,
        timeout_s=settings.produce_timeout_s,
        linger_ms=settings.linger_ms,
        message_bytes_max=settings.event_bytes_max + _DLQ_EXTRA_BYTES,
        queue_bytes_max=2 * settings.ingress_bytes_max,
        compression=settings.compression,
    )


def failure(error: KafkaError) -> ProduceFailure:
    """Returns what a client error means for the sender of the record."""
    code = error.code()
    if code in TOO_LARGE:
        problem = ProduceProblem.TOO_LARGE
    elif code == KafkaError._QUEUE_FULL:
        problem = ProduceProblem.FULL
    elif code in _REFUSED:
        problem = ProduceProblem.REFUSED
    else:
        problem = ProduceProblem.UNAVAILABLE
    return ProduceFailure(problem, error.str())


def is_fatal(error: KafkaError) -> bool:
    """Returns whether the client is unusable from now on."""
    return error.fatal() or error.code() in (KafkaError._FATAL, KafkaError._STATE)
