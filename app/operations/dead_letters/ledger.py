"""The redrive ledger: a compacted topic `<instance>.redriven`, keyed by TOPIC/PARTITION/OFFSET of the dead letter.

    POST answered 2xx --> record(letter) acknowledged by Kafka --> only then the slot takes another letter

So after a kill, at most the letters in flight are delivered again. An entry also has the letter's time and event id:
when a DLQ topic is deleted and created again, its offsets begin again, and old entries must not count for new letters.
`forget_expired` removes the entries of letters that retention has removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from app.operations.dead_letters.letters import DeadLetter
from app.worker.producer.config import ProducerConfig, failure
from knative.contract.codec import UnknownSchema, record_at
from knative.contract.decoding import Decoder
from knative.contract.kafka_names import redriven_topic
from knative.delivery.verdicts import Reply
from knative.errors import NotReadyError, PenstockError
from knative.ports import Headers, ProduceFailure, ProduceProblem
from tables.kafka.acknowledged import not_stored
from tables.kafka.topic_reader import NoSuchTopicError, TopicReader
from tables.kafka.unreadable import skip
from tables.timing import ANSWER_S

_SCHEMA = 1
_DECODER = Decoder({})


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One letter that its subscriber has accepted."""

    letter_ms: int
    event: str
    subscription: str
    redriven_at: str  #: RFC 3339
    attempts: int

    def means(self, letter: DeadLetter) -> bool:
        """Returns whether the entry is about this letter, and not about an earlier one at the same offset."""
        return (self.letter_ms, self.event) == (letter.record.timestamp_ms, letter.event_id)


class Ledger:
    """A snapshot of all entries."""

    def __init__(self, ledger: Mapping[str, LedgerEntry]) -> None:
        self._ledger = dict(ledger)

    def has(self, letter: DeadLetter) -> bool:
        """Returns whether it was redriven."""
        return self.get(letter) is not None

    def get(self, letter: DeadLetter) -> LedgerEntry | None:
        """Returns when and how it was redriven; None = it was not."""
        entry = self._ledger.get(letter.ref)
        return entry if entry is not None and entry.means(letter) else None

    @property
    def places(self) -> Iterator[tuple[str, int, int]]:
        """Topic, partition and offset of each letter."""
        for ref in self._ledger:
            topic, partition, offset = ref.rsplit("/", 2)
            yield topic, int(partition), int(offset)

    def below(self, topic: str, starts: Mapping[int, int]) -> list[str]:
        """Returns references of letters of `topic` below the first offset of their partition."""
        places = zip(self._ledger, self.places, strict=True)
        return [ref for ref, (name, number, offset) in places if name == topic and offset < starts.get(number, 0)]


def encode(entry: LedgerEntry) -> bytes:
    """Returns the entry as JSON, the value of its record."""
    return json.dumps({"schema": _SCHEMA, **asdict(entry)}, ensure_ascii=False).encode()


def decode(value: bytes) -> LedgerEntry:
    """Decode the value of a record. Raises UnknownSchema for a newer schema, and ValueError for other data."""
    return _DECODER.read(LedgerEntry, record_at(orjson.loads(value), _SCHEMA))


def read_ledger(kafka: Mapping[str, Any], instance: str) -> Ledger:
    """Returns all entries. Raises NotReadyError, and PenstockError for entries of a newer version."""
    ledger: dict[str, LedgerEntry] = {}
    topic = redriven_topic(instance)
    try:
        with TopicReader(topic, kafka) as reader:
            for record in reader.stored():
                ref = (record.key or b"").decode("utf-8", "replace")
                if record.value is None:
                    ledger.pop(ref, None)
                elif _is_ref(ref):
                    try:
                        ledger[ref] = decode(record.value)
                    except UnknownSchema:
                        raise
                    except ValueError as problem:
                        skip(topic, record, problem)
    except NoSuchTopicError:
        return Ledger({})
    except UnknownSchema as problem:
        raise PenstockError(
            f"The topic {topic} cannot be read ({problem}).",
            "A newer version of Penstock wrote it. Use the `penstock` command of that version.",
        ) from problem
    return Ledger(ledger)


def _is_ref(text: str) -> bool:
    topic, *place = text.rsplit("/", 2)
    return bool(topic) and len(place) == 2 and all(part.isdecimal() for part in place)


class LedgerWriter:
    """Writes entries, and replies. Blocks, so use it in threads; several may use it at once."""

    def __init__(self, config: ProducerConfig, instance: str) -> None:
        """`config`: as in a worker, so that a reply goes to the same partition and may be as large."""
        self.topic = redriven_topic(instance)
        # Unlike a worker's, the client itself gives up: nothing may be stored after `_produce` has said that it is not.
        limits = {"delivery.timeout.ms": int(ANSWER_S * 1000) - 1000, "request.timeout.ms": 5_000}
        self._producer = Producer({**config.client(), **limits, "linger.ms": 0, "log_level": 0})

    def close(self) -> None:
        """Destroy the client; nothing may be recorded afterwards."""
        del self._producer

    def record(self, letter: DeadLetter, entry: LedgerEntry) -> None:
        """Returns when Kafka has acknowledged the entry. Raises NotReadyError when it does not."""
        problem = self._produce(self.topic, letter.ref.encode(), encode(entry))
        if problem is not None:
            raise NotReadyError(
                f"{letter.ref} was delivered, but {self.topic} could not record that ({problem.message}).",
                "Run the command again when Kafka answers. This letter may then be delivered a second time.",
            )

    def forget_expired(self, ledger: Ledger, topic: str, starts: Mapping[int, int]) -> None:
        """Remove the entries of letters that retention has removed. `starts`: first offset by partition. Raises
        NotReadyError when Kafka does not acknowledge it."""
        for ref in ledger.below(topic, starts):
            problem = self._produce(self.topic, ref.encode(), None)
            if problem is not None:
                raise NotReadyError(
                    f"The entry of {ref} could not be removed from {self.topic} ({problem.message}), although "
                    "retention has removed the letter.",
                    "You do not need to do anything: the next run removes the entry.",
                )

    def store_reply(self, topic: str, reply: Reply, headers: Headers) -> ProduceFailure | None:
        """Store the reply of a Trigger's subscriber in the broker's topic; None = Kafka has acknowledged it."""
        return self._produce(topic, reply.key, reply.value, headers)

    def _produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> ProduceFailure | None:
        """Write one record and wait for its acknowledgement. Returns why there is none."""
        outcomes: list[ProduceFailure | None] = []

        def done(error: KafkaError | None, message: Message) -> None:
            problem = not_stored(error, message)
            outcomes.append(None if problem is None else failure(problem))

        try:
            self._producer.produce(topic, value, key, on_delivery=done, headers=[*headers])
            self._producer.flush(ANSWER_S)
        except KafkaException as problem:
            outcomes.append(failure(problem.args[0]))
        except BufferError as problem:
            outcomes.append(ProduceFailure(ProduceProblem.FULL, str(problem)))
        return outcomes[0] if outcomes else ProduceFailure(ProduceProblem.UNAVAILABLE, "time limit")
