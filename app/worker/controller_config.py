"""The controller's config from the settings of this installation, for the worker and for `penstock validate`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from agents.config import BROKER_SESSION_S
from app.settings.fields import REPORT_MAX_S
from app.settings.load import Settings
from controller.config import ControllerConfig
from knative.delivery.policy import BackoffPolicy, DeliverySpec, parse_duration_s
from tables.status_table import FRESH_S


def silent_s(settings: Settings) -> float:
    """Returns how long nothing is heard of a worker until it is gone for certain: until Kafka does not take it for a
    member of its groups any more."""
    session_s = settings.session_timeout_s if settings.group_protocol == "classic" else BROKER_SESSION_S
    # It may freeze just before it reports, with a new session.
    return max(FRESH_S, session_s + REPORT_MAX_S)


def controller_config(
    settings: Settings, kafka: Mapping[str, Any], resources_dir: Path | None = None
) -> ControllerConfig:
    """`kafka`: librdkafka client settings. `resources_dir` replaces the directory of the settings."""
    return ControllerConfig(
        kafka=kafka,
        resources_dir=resources_dir or settings.resources_dir or Path(),
        state_dir=settings.state_dir,
        kafka_secrets=Path(settings.kafka_secrets) if settings.kafka_secrets else None,
        instance=settings.instance,
        topic_template=settings.topic_template,
        broker_template=settings.broker_topic_template,
        cluster_domain=settings.cluster_domain,
        ingress_url=settings.ingress_url,
        channel_services=settings.channel_services,
        traffic=settings.traffic,
        event_bytes_max=settings.event_bytes_max,
        default_delivery=DeliverySpec(
            retry=settings.retry_default,
            backoff_policy=BackoffPolicy(settings.backoff_policy_default),
            backoff_delay_s=parse_duration_s(settings.backoff_default),
        ),
        internal_replication=settings.internal_replication,
        dlq_retention_s=settings.dlq_retention_s,
        poll_s=settings.poll_s,
        resync_s=settings.resync_s,
        silent_s=silent_s(settings),
        namespaces=settings.namespaces or (),
        kubeconfig=settings.kubeconfig,
        context=settings.kube_context,
        subscriptions=settings.subscriptions,
        version=version("penstock"),
    )
