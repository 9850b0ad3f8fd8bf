"""Waits at start until Kafka answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import structlog

from app.settings.load import Settings
from app.timing import GLANCE_S, LOOK_S
from knative.backoff import doubling_s
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaUnavailable
from tables.timing import AGAIN_S

if TYPE_CHECKING:
    from controller.outage import OutageAtStart

log = structlog.get_logger(__name__)


async def wait_for_kafka(settings: Settings, kafka: Mapping[str, Any]) -> str | None:
    """Wait for the time that the settings allow. Returns why Kafka does not answer; None = it does."""
    until = time.monotonic() + settings.kafka_wait_s
    warned = False
    while (why := await asyncio.to_thread(_why_not, kafka)) is not None:
        if not warned:
            warned = True
            limit_s = f"{settings.kafka_wait_s:g} s"
            log.warning(f"Kafka at {settings.kafka} does not answer ({why}); waiting up to {limit_s} for it")
        if time.monotonic() > until:
            log.error(
                f"Kafka at {settings.kafka} did not answer within {settings.kafka_wait_s:g} s ({why}). "
                "Start a Kafka with `penstock kafka up`, or set PENSTOCK_KAFKA."
            )
            return why
        await asyncio.sleep(AGAIN_S)
    return None


async def outage_ends(outage: OutageAtStart, kafka: Mapping[str, Any], stopping: Callable[[], bool]) -> bool:
    """Wait however long it takes; meanwhile conditions say that Kafka is away. False: the process is being stopped.
    Raises UsageError."""
    await outage.start()
    log.warning("this controller waits for Kafka; until Kafka answers, it only writes conditions that say so")
    for pause_s in doubling_s(AGAIN_S, LOOK_S):
        why = await asyncio.to_thread(_why_not, kafka)
        if stopping() or why is None:
            break
        outage.why = f"{kafka['bootstrap.servers']}: {why}"
        await asyncio.sleep(pause_s)
    await outage.stop()
    if not stopping():
        log.info("Kafka answers")
    return not stopping()


def _why_not(kafka: Mapping[str, Any]) -> str | None:
    """Returns why Kafka does not answer; None = it does. Blocks: it creates and destroys a client, which takes too long
    for the event loop."""
    try:
        KafkaAdmin(kafka, GLANCE_S).probe()
    except KafkaUnavailable as problem:
        return problem.why
    return None
