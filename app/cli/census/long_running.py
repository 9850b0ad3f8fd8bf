"""Shared by `penstock census compute` and `penstock census results`, which both run until they are stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.census.topics import KEPT, Topic, Topics
from app.cli.output.format import note

if TYPE_CHECKING:
    from app.settings.load import Settings


def quiet(settings: Settings, verbose: bool) -> Settings:
    """The settings with Faust's own start messages off, unless the user asked for them."""
    asked = verbose or "log_level" in settings.sources
    return settings if asked else settings.model_copy(update={"log_level": "warning"})


def results_topic_of(topics: Topics, name: str, partitions: int, replication: int) -> Topic:
    """The results topic, created if it does not exist."""
    found, new = topics.ensure(name, partitions, replication, KEPT)
    if new:
        note(f"Created the topic {name} with {found.partitions} partitions.")
    return found
