"""Logs what changes in an object's conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from controller.plan.actions import WriteStatus
from controller.plan.channels import TOPIC_DIFFERS
from knative.resources.conditions import Condition, ConditionStatus

log = structlog.get_logger(__name__)


def log_changes(status: WriteStatus, before: Sequence[Condition], after: Sequence[Condition]) -> None:
    """Log one line if an object becomes ready, or becomes not ready, or the reason changes; and one if a part of its
    spec is rejected, whether it is ready or not."""
    old = {condition.type: condition for condition in before}
    for new in after:
        last = old.get(new.type)
        if new.type != "Ready":
            if new.reason == TOPIC_DIFFERS and (last is None or last.message != new.message):
                _log(log.warning, "resource is not served exactly as specified", status, new)
        elif new.status is ConditionStatus.TRUE:
            if last is None or last.status is not ConditionStatus.TRUE:
                _log(log.info, "resource is ready", status, new)
        elif last is None or (last.status, last.reason) != (new.status, new.reason):
            _log(log.warning if new.status is ConditionStatus.FALSE else log.info, "resource is not ready", status, new)


def _log(write: Callable[..., object], event: str, status: WriteStatus, condition: Condition) -> None:
    write(
        event,
        kind=status.kind,
        resource=f"{status.namespace}/{status.name}",
        generation=status.generation,
        reason=condition.reason,
        message=condition.message,
    )
