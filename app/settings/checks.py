"""Checks of settings: values that are not valid, and those that are valid alone but contradict each other."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit

from knative.contract import kafka_names
from knative.delivery.policy import parse_duration_s
from knative.resources import destination
from web.console.safety import is_open_to_others

_PROCESSES = re.compile(r"auto|[1-9][0-9]?", re.ASCII)
_SCHEME = re.compile(r"cluster\Z|[a-z][a-z0-9+.-]*:", re.ASCII)
_NAMESPACE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)


class Checked(Protocol):
    """The settings that these checks read; `app.settings.fields.Settings` has them."""

    @property
    def role(self) -> str: ...
    @property
    def resources(self) -> str: ...
    @property
    def instance(self) -> str: ...
    @property
    def topic_template(self) -> str: ...
    @property
    def broker_topic_template(self) -> str: ...
    @property
    def traffic_10s_keep_s(self) -> int: ...
    @property
    def traffic_1m_keep_s(self) -> int: ...
    @property
    def http_port(self) -> int: ...
    @property
    def admin_port(self) -> int: ...
    @property
    def tls_cert(self) -> str: ...
    @property
    def tls_key(self) -> str: ...
    @property
    def own_token(self) -> str: ...
    @property
    def ingress_url(self) -> str: ...
    @property
    def event_bytes_max(self) -> int: ...
    @property
    def ingress_bytes_max(self) -> int: ...
    @property
    def admin_bind(self) -> str: ...
    @property
    def console(self) -> str: ...
    @property
    def console_tokens(self) -> str: ...


def contradictions(settings: Checked) -> list[str]:
    """Returns one message for each contradiction, with what to do about it."""
    problems = []
    if settings.role == "controller" and not settings.resources:
        problems.append(
            "PENSTOCK_ROLE=controller has nothing to reconcile; also set PENSTOCK_RESOURCES, to a directory or to "
            "cluster:."
        )
    if settings.traffic_1m_keep_s < settings.traffic_10s_keep_s:
        problems.append(
            f"PENSTOCK_TRAFFIC_1M_KEEP_S={settings.traffic_1m_keep_s} is less than PENSTOCK_TRAFFIC_10S_KEEP_S="
            f"{settings.traffic_10s_keep_s}; raise it: windows of a minute are made from windows of 10 s."
        )
    for setting, template in (
        ("PENSTOCK_TOPIC_TEMPLATE", settings.topic_template),
        ("PENSTOCK_BROKER_TOPIC_TEMPLATE", settings.broker_topic_template),
    ):
        topic = kafka_names.channel_topic(template, "namespace", "name")
        if kafka_names.topic_problem(topic, settings.instance) is not None:
            problems.append(
                f"{setting}={template} gives topics such as {topic}, which look like the internal ones of "
                f"PENSTOCK_INSTANCE={settings.instance} ({settings.instance}.*); use another prefix, for example "
                f"{settings.instance}-events.{{namespace}}.{{name}}."
            )
    if settings.admin_port == settings.http_port:
        problems.append(
            f"PENSTOCK_HTTP_PORT and PENSTOCK_ADMIN_PORT are both {settings.http_port}; give one of them another port."
        )
    if bool(settings.tls_cert) != bool(settings.tls_key):
        problems.append("PENSTOCK_TLS_CERT and PENSTOCK_TLS_KEY belong together; set both or neither.")
    if settings.own_token and not settings.ingress_url:
        problems.append(
            "PENSTOCK_OWN_TOKEN is sent only to the address of PENSTOCK_INGRESS_URL, which is not set; set "
            "PENSTOCK_INGRESS_URL too."
        )
    if is_open_to_others(settings.console, settings.admin_bind, bool(settings.console_tokens)):
        problems.append(
            f"PENSTOCK_CONSOLE={settings.console} with PENSTOCK_ADMIN_BIND={settings.admin_bind} would let everybody "
            "in; also set PENSTOCK_CONSOLE_TOKENS=file:FILE, or set PENSTOCK_CONSOLE=off."
        )
    if settings.ingress_bytes_max < settings.event_bytes_max:
        problems.append(
            f"PENSTOCK_INGRESS_BYTES_MAX={settings.ingress_bytes_max} is less than one event "
            f"(PENSTOCK_EVENT_BYTES_MAX={settings.event_bytes_max}); raise it."
        )
    return problems


def source_problem(value: str) -> str | None:
    """Returns why resources cannot come from there; None = they can."""
    if value.startswith("cluster:"):
        wrong = next((name for name in namespaces_of(value) if not _NAMESPACE.fullmatch(name)), None)
        return wrong and f"{wrong[:64]!r} is not a valid name of a namespace"
    if value and not value.removeprefix("file:").strip():
        return "there is no directory after file:"
    if not value.startswith("file:") and _SCHEME.match(value):
        return "only a directory and a cluster (written cluster:) are supported"
    return None


def namespaces_of(value: str) -> tuple[str, ...]:
    """Returns the namespaces in `cluster:NS,...`."""
    names = (part.strip() for part in value.removeprefix("cluster:").split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def message_of(parse: Callable[[str], object]) -> Callable[[str], str | None]:
    """Turn a parser that raises ValueError into a check that returns the message, or None."""

    def check(value: str) -> str | None:
        try:
            parse(value)
        except ValueError as problem:
            return str(problem)
        return None

    return check


def file_problem(value: str) -> str | None:
    """Returns why it does not name a file; None = it does."""
    return None if not value or value.removeprefix("file:").strip() not in ("", value) else "write a file as file:FILE"


def processes_problem(value: str) -> str | None:
    """Returns why it is not a number of processes; None = it is."""
    return None if _PROCESSES.fullmatch(value) else "it must be a number from 1 to 99, or auto"


def receiver_problem(value: str) -> str | None:
    """Returns why spans cannot be sent there; None = they can."""
    try:
        parts = urlsplit(value)
        bad = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError as problem:
        return str(problem)
    if value and (bad or parts.query or parts.fragment):
        return "write an endpoint as http://host:port or https://host:port, optionally with a path"
    if "@" in parts.netloc:
        return "it must not contain credentials; set headers with OTEL_EXPORTER_OTLP_HEADERS"
    return None


#: Setting -> why a value is not valid; None = it is.
PROBLEM_OF: dict[str, Callable[[str], str | None]] = {
    "resources": source_problem,
    "otlp_endpoint": receiver_problem,
    "instance": kafka_names.instance_problem,
    "topic_template": kafka_names.template_problem,
    "broker_topic_template": kafka_names.template_problem,
    "cluster_domain": kafka_names.domain_problem,
    "ingress_url": destination.base_problem,
    "channel_services": lambda host: kafka_names.domain_problem(host) if host else None,
    "processes": processes_problem,
    "backoff_default": message_of(parse_duration_s),
    "bind": message_of(ipaddress.ip_address),
    "admin_bind": message_of(ipaddress.ip_address),
    "tokens": file_problem,
    "own_token": file_problem,
    "console_tokens": file_problem,
}
