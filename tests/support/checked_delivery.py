"""A delivery for tests that raises an error for a change of state that the table does not allow."""

from __future__ import annotations

from agents.offsets.partition import Delivery
from agents.offsets.state import TRANSITIONS
from tests.support.checked_state import CheckedState


class CheckedDelivery(Delivery):
    """A delivery whose changes of state are checked against the table, each one."""

    state = CheckedState(TRANSITIONS)
