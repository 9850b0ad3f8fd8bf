"""One run of a redrive from its lock to the tidied ledger, for the command and the console.

lock --> ledger, as the previous run has left it --> redrive --> forget what retention has removed --> unlock
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.http.pool import PoolConfig
from app.operations.dead_letters.ledger import Ledger, LedgerWriter, read_ledger
from app.operations.dead_letters.letters import DeadLetter
from app.operations.dead_letters.lock import redrive_lock
from app.operations.dead_letters.reader import Starts
from app.operations.dead_letters.redrive import Redrive, RedriveConfig
from app.operations.dead_letters.summary import Summary
from app.settings.load import Settings
from app.worker.egress import guard_of
from app.worker.producer.config import producer_config
from app.worker.secrets.own_token import own_ingress
from controller.kafka.internal_topics import ensure_compacted
from knative.contract.kafka_names import redriven_topic
from knative.contract.records import Channel, Subscription
from knative.errors import NotReadyError, PenstockError
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaFailed
from tables.timing import ANSWER_S

_TAKEN = "another redrive has taken its place"


@dataclass(frozen=True, slots=True)
class RedrivePlace:
    """The Kafka and the instance of a redrive."""

    settings: Settings
    kafka: Mapping[str, Any]  #: librdkafka client settings
    subscriptions: Sequence[Subscription]
    channels: Iterable[Channel]


@dataclass(frozen=True, slots=True)
class Told:
    """What a run says. Called on the event loop."""

    failed: Callable[[DeadLetter, str], None]  #: each letter that failed, and why
    say: Callable[[str], None]  #: sentences for a person who waits
    started: Callable[[Redrive], None]  #: once, when the lock is taken and the first letter is about to be sent


async def run_redrive(
    place: RedrivePlace, config: RedriveConfig, letters: Callable[[Starts], Iterator[DeadLetter]], told: Told
) -> Summary:
    """Redrive what `letters` yields. It is called once the lock is held, and given what takes the first offsets of the
    topics that it reads whole. Raises NotReadyError when another run has the lock, and PenstockError."""
    settings, client, instance = place.settings, place.kafka, place.settings.instance
    await asyncio.to_thread(_ensure_topic, client, instance, settings.internal_replication)
    run: Redrive | None = None
    is_lost = False

    def lost() -> None:
        nonlocal is_lost
        is_lost = True
        if run is not None:
            run.stop(_TAKEN)

    async with redrive_lock(client, instance, lost, told.say):
        # Read it after the lock: then it includes what the previous run has redriven.
        ledger = await asyncio.to_thread(read_ledger, client, instance)
        kept = producer_config(settings, client, f"{instance}-redrive")
        writer = await asyncio.to_thread(LedgerWriter, kept, instance)
        own = own_ingress(settings)
        pools = PoolConfig(reply_bytes_max=settings.event_bytes_max), guard_of(settings), own and own[0]
        config = replace(config, reply_depth_max=settings.reply_depth_max)
        run = Redrive(config, pools, place.subscriptions, ledger, writer, told.failed, place.channels)
        if is_lost:  # while the ledger was read
            run.stop(_TAKEN)
        told.started(run)
        starts: dict[str, Mapping[int, int]] = {}
        summary = await run.run(letters(starts.__setitem__))
        if summary.complete:
            await asyncio.to_thread(_tidy, writer, ledger, starts, told.say)
        await asyncio.to_thread(writer.close)
        return summary


def _tidy(
    writer: LedgerWriter, ledger: Ledger, starts: Mapping[str, Mapping[int, int]], say: Callable[[str], None]
) -> None:
    """Remove ledger records of dead letters that retention has removed. If this fails, the next run does it."""
    try:
        for topic, firsts in starts.items():
            writer.forget_expired(ledger, topic, firsts)
    except NotReadyError as problem:
        say(str(problem))


def _ensure_topic(client: Mapping[str, Any], instance: str, replication: int) -> None:
    try:
        ensure_compacted(KafkaAdmin(client, ANSWER_S), [redriven_topic(instance)], replication)
    except KafkaFailed as problem:
        raise PenstockError(
            f"The redrive ledger cannot be written: {problem}.", "Fix that problem, then run the command again."
        ) from problem
