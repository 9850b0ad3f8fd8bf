"""What Knative Serving's webhook refuses in a Service, with its default features; and what makes a worker fail there.

There is no Serving in the tests, so this is a table of its rules: `problems` is empty for a Service that it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_POD_FIELDS = frozenset(
    {"containers", "containerConcurrency", "timeoutSeconds", "responseStartTimeoutSeconds", "idleTimeoutSeconds",
     "serviceAccountName", "volumes", "imagePullSecrets", "enableServiceLinks"}
)  # fmt: skip
_CONTAINER_FIELDS = frozenset(
    {"name", "image", "args", "command", "env", "envFrom", "workingDir", "imagePullPolicy", "ports", "livenessProbe",
     "readinessProbe", "startupProbe", "resources", "securityContext", "terminationMessagePath",
     "terminationMessagePolicy", "volumeMounts"}
)  # fmt: skip
_SECURITY_FIELDS = frozenset(
    {"runAsUser", "runAsGroup", "runAsNonRoot", "readOnlyRootFilesystem", "allowPrivilegeEscalation", "capabilities",
     "seccompProfile"}
)  # fmt: skip
_VOLUME_SOURCES = frozenset({"secret", "configMap", "projected", "emptyDir"})
_VARIABLE_SOURCES = frozenset({"configMapKeyRef", "secretKeyRef"})
_PROBES = ("httpGet", "tcpSocket", "exec", "grpc")
_RESERVED_VARIABLES = frozenset({"PORT", "K_SERVICE", "K_CONFIGURATION", "K_REVISION"})
_RESERVED_PORTS = frozenset({8008, 8012, 8013, 8022, 8112, 9090, 9091})
_PORT_NAMES = frozenset({"", "http1", "h2c"})
_RESERVED_PATHS = frozenset({"/", "/dev", "/dev/log"})
_AUTOSCALING = "autoscaling.knative.dev/"
_CONCURRENCY_MOST = 1000
#: `config-defaults` max-revision-timeout-seconds.
_TIMEOUT_MOST_S = 600


def problems(service: Mapping[str, Any]) -> list[str]:
    """One sentence for each rule that the Service breaks."""
    template = service["spec"]["template"]
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    return [*_of_scale(annotations), *_of_pod(template["spec"])]


def _of_scale(annotations: Mapping[str, str]) -> Iterator[str]:
    for name in annotations:
        if name.startswith(_AUTOSCALING) and not isinstance(annotations[name], str):
            yield f"{name} is not a text"
    least, most = (int(annotations.get(f"{_AUTOSCALING}{bound}", "0")) for bound in ("min-scale", "max-scale"))
    if least < 0 or most < 0 or (most and least > most):
        yield f"min-scale {least} and max-scale {most} contradict each other"
    target = float(annotations.get(f"{_AUTOSCALING}target", "1"))
    if target < 0.01:
        yield f"target {target} is less than 0.01"


def _of_pod(spec: Mapping[str, Any]) -> Iterator[str]:
    for name in spec.keys() - _POD_FIELDS:
        yield f"{name} is not allowed in the spec of a pod"
    if not 0 <= spec.get("containerConcurrency", 0) <= _CONCURRENCY_MOST:
        yield f"containerConcurrency is not from 0 to {_CONCURRENCY_MOST}"
    if not 0 < spec.get("timeoutSeconds", 300) <= _TIMEOUT_MOST_S:
        yield f"timeoutSeconds is not from 1 to {_TIMEOUT_MOST_S}"
    if len(spec["containers"]) != 1:
        yield "there is not exactly one container"
        return
    container = spec["containers"][0]
    volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
    yield from _of_volumes(container.get("volumeMounts", ()), volumes)
    yield from _of_container(container)


def _of_volumes(mounts: Any, volumes: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, volume in volumes.items():
        if len(volume.keys() & _VOLUME_SOURCES) != 1 or volume.keys() - _VOLUME_SOURCES - {"name"}:
            yield f"volume {name} is of a kind that is not allowed"
        if name not in [mount["name"] for mount in mounts]:
            yield f"volume {name} is not mounted"
    for mount in mounts:
        if mount["name"] not in volumes:
            yield f"there is no volume {mount['name']}"
        elif "emptyDir" not in volumes[mount["name"]] and not mount.get("readOnly"):
            yield f"the mount of volume {mount['name']} is not readOnly"
        if mount["mountPath"] in _RESERVED_PATHS or not mount["mountPath"].startswith("/"):
            yield f"mountPath {mount['mountPath']} is not allowed"


def _of_container(container: Mapping[str, Any]) -> Iterator[str]:
    for name in container.keys() - _CONTAINER_FIELDS:
        yield f"{name} is not allowed in a container"
    if container.get("name") == "queue-proxy":
        yield "the name queue-proxy is reserved"
    for variable in container.get("env", ()):
        if variable["name"] in _RESERVED_VARIABLES:
            yield f"variable {variable['name']} is reserved"
        if (variable.get("valueFrom") or {}).keys() - _VARIABLE_SOURCES:
            yield f"variable {variable['name']} has a source that is not allowed"
    for name in (container.get("securityContext") or {}).keys() - _SECURITY_FIELDS:
        yield f"securityContext.{name} is not allowed"
    yield from _of_ports(container.get("ports", ()))
    port = (container.get("ports") or [{}])[0]
    for name in ("readinessProbe", "livenessProbe", "startupProbe"):
        yield from _of_probe(name, container.get(name), port)


def _of_ports(ports: Any) -> Iterator[str]:
    if len(ports) > 1:
        yield "more than one port"
    for port in ports:
        if port.get("name", "") not in _PORT_NAMES:
            yield f"port name {port['name']} is not '', http1 or h2c"
        if port["containerPort"] in _RESERVED_PORTS:
            yield f"port {port['containerPort']} is reserved"
        if port.get("protocol", "TCP") != "TCP" or port.keys() & {"hostPort", "hostIP"}:
            yield "a port is not a TCP port of the pod"


def _of_probe(name: str, probe: Mapping[str, Any] | None, port: Mapping[str, Any]) -> Iterator[str]:
    if probe is None:
        return
    kinds = [kind for kind in _PROBES if kind in probe]
    if len(kinds) != 1:
        yield f"{name} is not of exactly one kind"
        return
    asked = (probe[kinds[0]] or {}).get("port", "")
    if asked not in ("", 0, port.get("name"), port.get("containerPort")):
        yield f"{name} asks another port than the container's"
    if (
        name == "readinessProbe"
        and probe.get("periodSeconds") == 0
        and probe.keys() & {"failureThreshold", "timeoutSeconds"}
    ):
        yield f"{name} with periodSeconds 0 has a threshold or a time limit"
