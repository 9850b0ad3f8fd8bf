"""The objects that a real controller rejects are in the status topic, where commands on any machine read them."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from app.cli.status import rows
from app.local.kafka import EmbeddedKafka
from app.operations.contract_snapshot import read_contract
from tests.integration.controller_fixture import ControllerFixture

pytestmark = pytest.mark.integration


@pytest.mark.asyncio
async def test_rejected_objects_are_read_from_kafka(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    plant = ControllerFixture(kafka.bootstrap, tmp_path, f"i{uuid.uuid4().hex[:8]}")
    plant.channel("orders", 2)
    plant.subscription("lost", "nowhere")
    (plant.folder / "bad.yaml").write_text("kind: [", "utf-8")

    def reported() -> dict[str, tuple[object, object]]:
        status = rows(read_contract(plant.config.kafka, plant.config.instance), 0.0)
        rows_by_name = {str(row["channel"]): row for row in status["channels"]}
        rows_by_name |= {str(row["subscription"]): row for row in status["subscriptions"]}
        rows_by_name |= {str(row["file"]): row for row in status["problems"]}
        return {name: (row["ready"], row["reason"]) for name, row in rows_by_name.items()}

    async with plant:
        lost = ("False", "ChannelNotFound")
        bad = ("False", "FileNotTaken")
        await plant.until(
            lambda: reported() == {"default/orders": ("True", ""), "default/lost": lost, "bad.yaml:1": bad},
            "all are reported",
        )
        plant.remove("bad")
        plant.remove("lost")
        plant.channel("orders", 1)
        await plant.until(lambda: reported() == {"default/orders": ("True", "TopicDiffers")}, "what is mended is gone")
    assert reported() == {"default/orders": ("True", "TopicDiffers")}, "it stays when the controller is gone"
