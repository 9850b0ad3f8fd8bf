"""All settings: name, meaning, unit, default and limits of each. A `Settings` value is validated and frozen.

`app/settings/load` reads the values from the environment, a file and the command line. Other packages get frozen
configs of their own instead of this object.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from app.settings.checks import PROBLEM_OF, contradictions, namespaces_of
from knative.contract import kafka_names
from knative.delivery.policy import DURATION_MAX_S

PREFIX = "PENSTOCK_"
MIB = 1_048_576
REPORT_MAX_S = 4.0  #: of `status_interval_s`: two reports are younger than a status may be

_BROKER = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):(?P<port>\d{1,5})", re.ASCII)


def _setting(default: object, unit: str, meaning: str, example: str = "", **limits: Any) -> Any:
    """Defines a setting. `example` is for error messages, when the default does not show how a value is written."""
    return Field(default, description=meaning, json_schema_extra={"unit": unit, "example": example}, **limits)


class Settings(BaseModel):
    """Each field is the setting `PENSTOCK_<NAME>`. The unit of a limit is in its name or beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    #: Sections of the reference page: first field of a section -> its heading.
    sections: ClassVar[Mapping[str, str]] = {
        "kafka": "Kafka",
        "resources": "Resources and the controller",
        "instance": "The process",
        "http_port": "Ports",
        "console": "The console",
        "event_bytes_max": "Ingress",
        "produce_timeout_s": "Storing events",
        "buffer_bytes_max": "Delivery",
        "retry_default": "Retries",
        "egress_allow_loopback": "Where events may go",
        "otlp_endpoint": "Traces",
        "spark_master": "The data pipeline",
        "traffic": "Traffic windows",
        "maven_repository": "Downloads",
        "log_level": "Logs and the interpreter",
    }

    kafka: str = _setting(
        "127.0.0.1:9092", "host:port, comma-separated", "Bootstrap servers of Kafka; one that answers is enough."
    )
    kafka_secret: str = _setting(
        "", "folder", "Folder of a mounted Secret with user, password and certificates for Kafka; empty: none."
    )
    kafka_secrets: str = _setting("", "folder", "Folder with NAMESPACE/NAME of each Secret of a Broker; empty: none.")
    kafka_wait_s: float = _setting(
        30.0, "seconds", "Wait for Kafka at start, then exit code 3 (not a cluster's controller).", ge=1, le=3600
    )
    group_protocol: Literal["classic", "consumer"] = _setting(
        "classic", "word", "Consumer group protocol: classic (cooperative-sticky), or consumer (KIP-848)."
    )
    session_timeout_s: float = _setting(
        8.0, "seconds", "Time without a heartbeat after which a worker loses its partitions (classic protocol).", ge=6,
        le=300,
    )  # fmt: skip
    internal_replication: int = _setting(
        1, "replicas", "Replication factor of the contract and status topics when they are created.", ge=1, le=9
    )

    resources: str = _setting(
        "",
        "DIR, file:DIR or cluster:[NS,...]",
        "Source of the resources. DIR is a directory of YAML files. Resources of this instance "
        "that are not in it are not served, and keep their topics. `cluster:` is a Kubernetes cluster, "
        "`cluster:NS,...` some of its namespaces. Empty: this process runs no controller and serves what another one "
        "publishes.",
        "my-resources",
    )
    subscriptions: Literal["auto", "core", "own"] = _setting(
        "auto", "word",
        "Who resolves a cluster's Subscriptions: core (Knative eventing), own (this controller), or auto: core if the "
        "cluster has Knative's kind Channel.",
    )  # fmt: skip
    kubeconfig: str = _setting(
        "", "path", "Kubeconfig of the cluster. Empty: that of kubectl, or the pod's ServiceAccount.", "/etc/kubeconfig"
    )
    kube_context: str = _setting("", "name", "Context of the kubeconfig. Empty: its current one.", example="production")
    state_dir: Path = _setting(
        Path(".penstock/state"), "path", "Folder in which the controller writes the status of every resource."
    )
    topic_template: str = _setting(
        kafka_names.CHANNEL_TOPIC_TEMPLATE, "template", "Topic of a channel; contains {namespace} and {name} once each."
    )
    broker_topic_template: str = _setting(
        kafka_names.BROKER_TOPIC_TEMPLATE, "template", "Topic of a broker; contains {namespace} and {name} once each."
    )
    cluster_domain: str = _setting("cluster.local", "domain", "Last part of the host names that channels publish.")
    ingress_url: str = _setting(
        "", "URL", "Base URL at which every worker reaches the ingress. Channels publish URLs below it, and refs to "
        "them resolve to these. Empty: host names that resolve in a cluster only.", example="http://localhost:8080",
    )  # fmt: skip
    channel_services: str = _setting(
        "", "host", "Where the Service <channel>-kn-channel of each KafkaChannel in a cluster leads: the host of the "
        "ingress, port 80. Empty: there are no such Services.", "penstock-ingress.penstock.svc.cluster.local"
    )  # fmt: skip
    dlq_retention_s: int = _setting(
        2_592_000, "seconds", "Retention of the DLQ topics that the controller creates.", ge=60, le=int(DURATION_MAX_S)
    )
    poll_s: float = _setting(0.5, "seconds", "How often the controller reads the resources directory.", ge=0.05, le=60)
    resync_s: float = _setting(
        30.0, "seconds", "How often, at least, the controller compares all resources with Kafka.", ge=1, le=3600
    )

    instance: str = _setting(
        "penstock",
        "name",
        "Name of this installation: prefix of its internal topics, its lock group and its client names. Two "
        "installations on one Kafka need different names. If both have a channel of the same namespace and name, they "
        "also need different values of PENSTOCK_TOPIC_TEMPLATE, or these channels share a topic.",
    )
    role: Literal["all", "ingress", "dispatcher", "controller"] = _setting(
        "all", "word", "What this process does: accept events, deliver them, reconcile resources, or all of these."
    )
    worker_id: str = _setting(
        "", "name", "Name of this process in statuses and logs. Empty: host name, process id and a random part.",
        "worker-1", max_length=128, pattern=r"^[A-Za-z0-9._-]*$",
    )  # fmt: skip
    processes: str = _setting(
        "1", "number or auto", "How many processes `penstock worker` and `penstock up` start, which share the ports of "
        "one; auto: one for each processor that it may use. A controller is always one. Limits apply to each process.",
    )  # fmt: skip
    drain_s: float = _setting(
        20.0, "seconds", "How long requests in flight may take at SIGTERM, and when a worker starts again in place.",
        ge=0, le=3600,
    )  # fmt: skip
    status_interval_s: float = _setting(
        2.0,
        "seconds",
        "How often a worker publishes what it serves. A report counts for 10 s.",
        ge=0.2,
        le=REPORT_MAX_S,
    )

    http_port: int = _setting(
        8080, "port", "Ingress, health and subscriber status. If it is not set, the variable PORT applies.", ge=1,
        le=65535,
    )  # fmt: skip
    tls_cert: str = _setting(
        "", "file", "Certificate chain (PEM) of both ports, read again when it changes; empty: HTTP without TLS."
    )
    tls_key: str = _setting("", "file", "Private key (PEM, without a password) of PENSTOCK_TLS_CERT.")
    tokens: str = _setting(
        "", "file:FILE", "Who may send: YAML of hashed bearer tokens, read again when it changes; empty: everybody."
    )
    own_token: str = _setting(
        "", "file:FILE", "Bearer token that dispatchers send to PENSTOCK_INGRESS_URL, and to nobody else; read again "
        "when it changes.",
    )  # fmt: skip
    admin_port: int = _setting(
        8081, "port", "The console, metrics, health and statistics of subscriptions, for operators; 0 = off.", ge=0,
        le=65535,
    )  # fmt: skip
    bind: str = _setting("0.0.0.0", "IP address", "Address that PENSTOCK_HTTP_PORT listens on.")
    admin_bind: str = _setting(
        "127.0.0.1", "IP address", "Address that PENSTOCK_ADMIN_PORT listens on. Only its console has "
        "authentication, and it shows URLs of subscribers. 0.0.0.0 lets others in, such as Prometheus; restrict who "
        "with a firewall or a network policy.",
    )  # fmt: skip
    connections_max: int = _setting(
        15_000, "connections", "Open connections; further ones get 503 and are closed. Keep it above "
        "PENSTOCK_INGRESS_INFLIGHT_MAX, so that 429 comes first.", ge=1, le=1_000_000,
    )  # fmt: skip
    idle_timeout_s: float = _setting(75.0, "seconds", "How long a keep-alive connection may be idle.", ge=1, le=3600)

    console: Literal["auto", "off", "read", "write"] = _setting(
        "auto", "word", "What people may do in the console at the admin port: nothing, look, or act too. auto: read if "
        "PENSTOCK_ADMIN_BIND is a loopback address or PENSTOCK_CONSOLE_TOKENS is set, otherwise off. `penstock up` "
        "has write.",
    )  # fmt: skip
    console_tokens: str = _setting(
        "", "file:FILE", "Who may log in to the console: YAML of hashed tokens, read again when it changes; empty: "
        "nobody has to, and it answers on loopback only.",
    )  # fmt: skip
    console_bodies: bool = _setting(
        False, "yes or no", "Whether the console shows the data of events even if PENSTOCK_CONSOLE is read."
    )

    event_bytes_max: int = _setting(MIB, "bytes", "Largest body of an event; above it 413.", ge=65_536, le=256 * MIB)
    # Not larger: topics have no room for more beside the body, and Kafka would reject what ingress accepts.
    header_bytes_max: int = _setting(
        131_072, "bytes", "All header lines of a request together; above it 431.", ge=4_096, le=131_072
    )
    headers_max: int = _setting(512, "headers", "Header lines of a request; above it 431.", ge=16, le=10_000)
    header_timeout_s: float = _setting(
        10.0, "seconds", "Time from the first byte of a request to the end of its headers; then 408.", ge=0.5, le=600
    )
    body_timeout_s: float = _setting(30.0, "seconds", "How long a body may pause; then 408.", ge=0.5, le=3600)
    ingress_inflight_max: int = _setting(
        10_000, "requests", "Requests that wait for Kafka's acknowledgement; above it 429.", ge=1, le=1_000_000
    )
    ingress_bytes_max: int = _setting(
        64 * MIB, "bytes", "Headers, with 160 bytes more for each line, and bodies of requests that wait for Kafka's "
        "acknowledgement; above it 429.",
        ge=65_536, le=65_536 * MIB,
    )  # fmt: skip

    produce_timeout_s: float = _setting(
        10.0, "seconds", "How long Kafka may take to acknowledge an event; then 503.", ge=1, le=300
    )
    linger_ms: int = _setting(
        2,
        "milliseconds",
        "Under load: how long events gather before they go to the Kafka client together. 0: each goes at once.",
        ge=0,
        le=5,
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = _setting(
        "lz4", "word", "Compression of events on the way to Kafka and in Kafka."
    )

    buffer_bytes_max: int = _setting(
        4 * MIB, "bytes", "Records that one subscription may hold in one process.", ge=65_536, le=1024 * MIB
    )
    fetch_bytes: int = _setting(
        MIB, "bytes", "Records that the Kafka client of one topic fetches ahead.", ge=65_536, le=1024 * MIB
    )
    commit_interval_s: float = _setting(
        0.5,
        "seconds",
        "How often offsets are committed. After a kill, what was settled in this time, and in one round trip of a "
        "commit, is delivered again.",
        ge=0.1,
        le=0.5,  # README promises that a kill repeats half a second at most
    )
    commit_timeout_s: float = _setting(
        2.0, "seconds", "When Kafka has not confirmed a commit for this time, new events wait: they might be delivered "
        "twice.", ge=0.5, le=300,
    )  # fmt: skip
    revoke_drain_s: float = _setting(
        3.0, "seconds", "How long requests in flight may take when their partition or their destination changes.",
        ge=0, le=60,
    )  # fmt: skip

    retry_default: int = _setting(
        10, "retries", "Retries when neither the subscription nor its channel has a `delivery`.", ge=0, le=1_000_000
    )
    backoff_policy_default: Literal["exponential", "linear"] = _setting(
        "exponential", "word", "How backoff grows when there is no `delivery`."
    )
    backoff_default: str = _setting("PT0.2S", "ISO-8601 duration", "First wait when there is no `delivery`.")
    retry_delay_cap_s: float = _setting(600.0, "seconds", "Longest backoff of any policy.", ge=0.1, le=86_400)
    retry_after_cap_s: float = _setting(
        600.0, "seconds", "Upper limit of Retry-After when there is no `retryAfterMax`.", ge=0, le=86_400
    )

    reply_depth_max: int = _setting(
        64, "replies", "How many replies and deliveries to channels or brokers may lead to an event. More are a loop.",
        ge=1, le=1_000_000,
    )  # fmt: skip

    egress_allow_loopback: bool = _setting(True, "yes or no", "Subscribers may have loopback addresses.")
    egress_allow_private: bool = _setting(True, "yes or no", "Subscribers may have private addresses.")
    egress_deny: tuple[str, ...] = _setting(
        (),
        "CIDR, comma-separated",
        "Further networks that events are never sent to. Link-local addresses are always denied.",
        "10.0.0.0/8",
    )

    otlp_endpoint: str = _setting(
        "", "URL", "OTLP receiver (HTTP, protobuf) for spans: http://host:4318. Empty: none.", "http://127.0.0.1:4318"
    )
    trace_ratio: float = _setting(
        1.0,
        "ratio",
        "Share of the traces that start here and are recorded; a sender's decision comes first.",
        ge=0,
        le=1,
    )

    spark_master: str = _setting(
        "local[*]", "master", "Spark master of jobs without --master: local[N], spark://HOST:7077, yarn, k8s://..."
    )
    spark_jars: tuple[Path, ...] = _setting(
        (),
        "path, comma-separated",
        "Folders with more jars for Spark, such as those of GraphFrames. If they contain the Kafka connector, nothing "
        "is downloaded.",
    )
    traffic_dir: str = _setting(
        ".penstock/traffic", "path or URI", "Tables of `penstock job traffic`, a folder or s3a://BUCKET/FOLDER."
    )

    traffic: bool = _setting(
        True, "yes or no", "Count traffic each second, and show windows at /traffic (roles all and controller)."
    )
    traffic_retention_s: int = _setting(
        604_800, "seconds", "Retention of the traffic topic when Penstock creates it.", ge=3600, le=int(DURATION_MAX_S)
    )
    traffic_10s_keep_s: int = _setting(900, "seconds", "How long traffic windows of 10 s are kept.", ge=120, le=21_600)
    traffic_1m_keep_s: int = _setting(
        21_600, "seconds", "How long traffic windows of 1 min are kept.", ge=900, le=604_800
    )

    maven_repository: str = _setting(
        "https://repo.maven.apache.org/maven2",
        "URL",
        "Where jars for Kafka and Spark are downloaded: Maven Central, or a mirror of it. Their checksums are fixed.",
    )

    log_level: Literal["debug", "info", "warning", "error"] = _setting("info", "word", "Lowest level that is logged.")
    log_format: Literal["auto", "json", "pretty"] = _setting(
        "auto", "word", "One JSON object a line, or text for people; auto: text on a terminal, otherwise JSON."
    )
    debug: bool = _setting(
        False, "yes or no", "Serve /debug/profile, /debug/stacks and /debug/tasks at the admin port, without "
        "authentication. Core dumps are allowed, even with credentials in them.",
    )  # fmt: skip
    gc_threshold: int = _setting(
        50_000,
        "objects",
        "Allocations between two young garbage collections; 0 = the interpreter's own value.",
        ge=0,
        le=1_000_000_000,
    )

    _sources: dict[str, str] = PrivateAttr(default_factory=dict)
    _warnings: tuple[str, ...] = PrivateAttr(default=())

    @property
    def sources(self) -> Mapping[str, str]:
        """Field name -> source, for each value that is not the default."""
        return self._sources

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about names that are not settings, and values without effect; the worker logs them at start."""
        return self._warnings

    @property
    def resources_dir(self) -> Path | None:
        """The directory of `resources`; None = this process has no controller, or one of a cluster."""
        is_here = self.resources and not self.resources.startswith("cluster:")
        return Path(self.resources.removeprefix("file:")) if is_here else None

    @property
    def namespaces(self) -> tuple[str, ...] | None:
        """The namespaces of `resources`, () = all; None = they are not in a cluster."""
        return namespaces_of(self.resources) if self.resources.startswith("cluster:") else None

    @field_validator("kafka")
    @classmethod
    def _brokers(cls, value: str) -> str:
        brokers = [part.strip() for part in value.split(",") if part.strip()]
        if not brokers:
            raise ValueError("it names no broker")
        for broker in brokers:
            match = _BROKER.fullmatch(broker)
            if match is None or not 0 < int(match["port"]) < 65_536:
                raise ValueError("write every broker as host:port, without a scheme or a user name")
        return ",".join(brokers)

    @field_validator(*PROBLEM_OF)
    @classmethod
    def _well_formed(cls, value: str, info: Any) -> str:
        if problem := PROBLEM_OF[info.field_name](value):
            raise ValueError(problem)
        return value

    @field_validator("egress_deny", "spark_jars", mode="before")
    @classmethod
    def _lists(cls, value: object, info: Any) -> object:
        networks = info.field_name == "egress_deny"
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, (list, tuple)):
            raise ValueError(f"it is not a list of {'networks' if networks else 'folders'}")
        texts = [str(part).strip() for part in parts if str(part).strip()]
        return tuple(str(ipaddress.ip_network(text)) if networks else Path(text) for text in texts)

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if problems := contradictions(self):
            raise ValueError("\n".join(problems))
        return self
