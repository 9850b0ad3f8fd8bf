"""A controller without a worker around it, which ends when everything is as the resources say."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from typing import Any

from app.observability.logging import configure_logging
from app.observability.metrics import Metrics
from app.settings.kafka import worker_kafka
from app.settings.load import Settings
from app.worker.controller_config import controller_config
from app.worker.producer.config import ProducerConfig
from app.worker.producer.kafka_producer import KafkaProducer
from controller.kafka.internal_topics import ensure_internal_topics
from controller.place import Place
from controller.service import Controller
from knative.contract import kafka_names
from knative.errors import NotReadyError
from tables.contract_table import ContractTable
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.status_table import StatusTable
from tables.timing import CLOSE_S


async def reconcile_once(settings: Settings, limit_s: float) -> None:
    """Lead, act until nothing is left to do, and give up leadership. Raises NotReadyError after `limit_s`, and
    PenstockError if Kafka or the source of the resources cannot be used."""
    configure_logging(settings)
    _, kafka = worker_kafka(settings)
    config = controller_config(settings, kafka)
    await asyncio.to_thread(KafkaAdmin(kafka, config.admin_timeout_s).probe)
    crash: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def crashed(problem: BaseException) -> None:
        if not crash.done():
            crash.set_exception(problem)

    name = f"{settings.instance}-controller"
    producer = KafkaProducer(ProducerConfig(kafka=kafka, name=name), Metrics(name), crashed)
    contract = ContractTable(config.contract_topic, kafka, crashed)
    status = StatusTable(kafka_names.status_topic(settings.instance), kafka, crashed)
    place: Place | None = None
    if settings.namespaces is not None:
        from controller.cluster import cluster  # takes a second at start, and 50 MB

        place = cluster(config, crashed, f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}")
    controller = Controller(config, contract, status, producer, crashed, place)
    await ensure_internal_topics(config)
    await producer.start()
    contract.start()
    status.start()
    try:
        await controller.start()
        settled = asyncio.create_task(controller.settled.wait())
        waiting: set[asyncio.Future[Any]] = {settled, crash}
        await asyncio.wait(waiting, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        settled.cancel()
        if crash.done():
            crash.result()
        if not controller.settled.is_set():
            not_elected = (place.problem() if place is not None else None) or "another controller leads"
            why = controller.problem or ("the controller waits for Kafka" if controller.leading else not_elected)
            raise NotReadyError(
                f"The resources were not reconciled within {limit_s:g} s: {why}.", "See `penstock status`."
            )
    finally:
        crash.cancel()
        await controller.stop()
        await contract.stop()
        await status.stop()
        await producer.stop(CLOSE_S)
