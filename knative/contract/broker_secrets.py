"""The Secrets of Brokers: how they are named, and what keeps one from being used. Pure.

A Secret is known by its reference, `namespace/name`. Nothing of what it holds is ever in a record.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NOT_FOUND, INVALID = "KafkaSecretNotFound", "KafkaSecretInvalid"
_LABEL = "[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_REFERENCE = re.compile(rf"{_LABEL}/(?=[^/]{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*", re.ASCII)


@dataclass(frozen=True, slots=True)
class SecretProblem:
    """Why a Secret cannot be used. `reason`: of the condition, NOT_FOUND or INVALID; "" = it was not tried yet."""

    reason: str
    message: str


def is_reference(text: str) -> bool:
    """Returns whether it is `namespace/name` with names that Kubernetes allows. No such name leads out of a folder."""
    return _REFERENCE.fullmatch(text) is not None
