"""Where resources come from and statuses go, and who elects the controller that acts on them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from controller.config import ControllerConfig
from controller.election import Election
from controller.model import Trouble
from controller.source.files import FileSource
from controller.source.interface import Source
from controller.status.interface import Sink
from controller.status.state_directory import StateDirectory

Changed = Callable[[bool], None]  #: is called with the new value of `Election.held`
MakeLock = Callable[[Changed], Election]  #: makes the lock in Kafka
Elect = Callable[[MakeLock, Changed], Election]


def by_lock(make_lock: MakeLock, changed: Changed) -> Election:
    """The owner of the lock in Kafka leads."""
    return make_lock(changed)


async def _nothing() -> None:
    """A directory has no connections."""


@dataclass(frozen=True, slots=True)
class Place:
    """A directory or a cluster."""

    source: Source
    sink: Sink
    elect: Elect = by_lock
    open: Callable[[], Awaitable[None]] = _nothing  #: comes first; raises UsageError
    close: Callable[[], Awaitable[None]] = _nothing  #: comes last
    #: whether this process may write statuses although it does not lead, because Kafka is away
    reports_outage: Callable[[], bool] = lambda: False
    problem: Callable[[], str | None] = lambda: None  #: why this process cannot be elected now; None = nothing is known
    troubles: Callable[[], list[Trouble]] = list  #: what does not work there now


def directory(config: ControllerConfig) -> Place:
    """Returns the directories of the config."""
    return Place(FileSource(config.resources_dir), StateDirectory(config.state_dir))
