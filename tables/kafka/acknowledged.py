"""What a producer's client reports about a record: stored, or why not.

librdkafka reports a record as stored without an answer for it when Kafka has stored a later one of the same partition.
It relies on the sequence numbers of an idempotent producer, which leave no gap. But a broker accepts any number of a
producer that it does not know in the partition: when it refuses the first batch (it is not the leader yet, or too few
replicas are in sync) and accepts the second, which was on its way already, the first is lost. Kafka's own answer has an
offset, and such a report has none.
"""

from __future__ import annotations

from confluent_kafka import KafkaError, Message

_UNKNOWN = KafkaError(
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "Kafka has stored a later record, but did not acknowledge this record"
)


def not_stored(error: KafkaError | None, message: Message) -> KafkaError | None:
    """Returns why the record may not be stored; None = it is. The arguments are those of `on_delivery`."""
    if error is None and message.offset() is None:
        return _UNKNOWN
    return error
