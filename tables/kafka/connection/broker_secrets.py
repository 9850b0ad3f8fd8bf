"""Reads the Secrets of Brokers: in the folder of PENSTOCK_KAFKA_SECRETS, each has a folder NAMESPACE/NAME."""

from __future__ import annotations

from pathlib import Path

from knative.contract.broker_secrets import INVALID, NOT_FOUND, SecretProblem, is_reference
from knative.errors import UsageError
from tables.kafka.connection.secret import SecretNotValid, read_keys, secret_settings

Found = tuple[dict[str, str], dict[str, str]]  #: keys of the Secret, librdkafka settings


def read_broker_secret(root: Path | None, reference: str, *, in_memory: bool = False) -> Found | SecretProblem:
    """What the folder of a Secret has, or why it cannot be used. `root` None: the setting is empty. `in_memory`: as for
    `secret_settings`. The message never shows a value."""
    if not is_reference(reference):
        return SecretProblem(
            INVALID, f"{reference[:320]!r} is not a valid NAMESPACE/NAME of a Secret; correct the ConfigMap"
        )
    if root is None:
        message = f"PENSTOCK_KAFKA_SECRETS is not set; set it to a folder that has {reference}"
        return SecretProblem(NOT_FOUND, message)
    folder = root / reference
    try:
        if not folder.is_dir():
            return SecretProblem(NOT_FOUND, f"PENSTOCK_KAFKA_SECRETS has no folder {reference}; mount the Secret there")
        keys = read_keys(folder)
        return keys, secret_settings(keys, folder, in_memory=in_memory)
    except SecretNotValid as problem:
        return SecretProblem(INVALID, f"the Kafka secret {reference} is not valid: {problem.problems}")
    except (UsageError, OSError) as problem:  # it is gone again, or this process may not read it
        why = getattr(problem, "strerror", None) or "its folder does not exist"
        return SecretProblem(INVALID, f"the Kafka secret {reference} cannot be read ({why})")
