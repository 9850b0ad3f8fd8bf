"""The parts of a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # not every role has all of them
    from agents.supervisor import Supervisor
    from app.observability.admin_server import AdminServer
    from app.observability.metrics import Metrics
    from app.observability.span_export import SpanExport
    from app.settings.load import Settings
    from app.worker.dlq_sizes import DlqSizes
    from app.worker.producer.kafka_producer import KafkaProducer
    from app.worker.renewal import Renewal
    from app.worker.secrets.broker_secrets import BrokerSecrets
    from app.worker.traffic.component import TrafficComponent
    from controller.config import ControllerConfig
    from controller.outage import OutageAtStart
    from controller.service import Controller
    from tables.contract_table import ContractTable
    from tables.status_table import StatusTable


@dataclass(slots=True)
class Parts:
    """The parts of a worker. The role decides which of the optional ones exist."""

    settings: Settings
    controller_config: ControllerConfig
    worker_id: str
    metrics: Metrics
    producer: KafkaProducer
    contract: ContractTable
    status: StatusTable
    admin: AdminServer | None = None
    supervisor: Supervisor | None = None
    controller: Controller | None = None
    outage: OutageAtStart | None = None
    dlq_sizes: DlqSizes | None = None
    spans: SpanExport | None = None
    traffic: TrafficComponent | None = None
    secrets: BrokerSecrets | None = None
    renewal: Renewal | None = None

    @property
    def unused(self) -> str | None:
        """Why settings, Kafka secrets or code that have changed are not used; None = they are."""
        return None if self.renewal is None else self.renewal.problem

    def led(self) -> tuple[Sequence[str], Mapping[str, int]]:
        """Returns all subscriptions, and the dead letters by DLQ topic; both empty where another process leads."""
        if self.controller is None or self.dlq_sizes is None or not self.controller.leading:
            return (), {}
        return [each.label for each in list(self.contract.subscriptions.values())], self.dlq_sizes.sizes

    def troubles(self) -> Mapping[str, int]:
        """Returns how many things do not work at the API server, by what they are."""
        from controller.model import TROUBLES

        troubles = [] if self.controller is None else self.controller.troubles()
        return {what: sum(trouble.what == what for trouble in troubles) for what in TROUBLES}
