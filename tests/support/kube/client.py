"""Asks the API server directly, with one HTTP request for each call, so that tests do not share a client with what they
test.

A token names who asks. An answer is a status and an object; only `must` raises.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.support.processes import Failed

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON = "application/json"
_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
_LIMIT_S = 60.0
#: Kinds whose plural is not their name in lower case and an "s".
_PLURALS = {"NetworkPolicy": "networkpolicies"}
_CLUSTER_WIDE = frozenset(
    ("Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "PersistentVolume",
     "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server said. `body` is the object, or a Status when it refused."""

    status: int
    body: Any

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def message(self) -> str:
        return str(self.body.get("message", "")) if isinstance(self.body, Mapping) else str(self.body)

    @property
    def causes(self) -> tuple[tuple[str, str], ...]:
        """(field, message) of each thing that is wrong with a refused object."""
        details = self.body.get("details") or {} if isinstance(self.body, Mapping) else {}
        return tuple((cause.get("field", ""), cause.get("message", "")) for cause in details.get("causes") or ())

    def must(self) -> Any:
        """The object. Raises Failed if the request was refused."""
        if not self.ok:
            raise Failed(f"the API server answered {self.status}: {self.message}")
        return self.body


def path_of(document: Mapping[str, Any], *, with_name: bool = True) -> str:
    """Where an object is, by its apiVersion, kind, namespace and name."""
    kind, metadata = document["kind"], document.get("metadata") or {}
    namespace = "" if kind in _CLUSTER_WIDE else metadata.get("namespace", "default")
    plural, name = _PLURALS.get(kind, f"{kind.lower()}s"), metadata["name"] if with_name else ""
    return resource_path(document["apiVersion"], plural, namespace=namespace, name=name)


def resource_path(api_version: str, plural: str, *, namespace: str = "", name: str = "") -> str:
    """Where objects of a kind are. `namespace` "" = of the whole cluster; `name` "" = all of them."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{inside}/{plural}" + (f"/{name}" if name else "")


class KubeClient:
    """Asks as the owner of one token."""

    def __init__(self, port: int, ca_file: Path, token: str) -> None:
        self.token = token
        self._port = port
        self._tls = ssl.create_default_context(cafile=str(ca_file))

    def request(
        self, method: str, path: str, body: object = None, *, content_type: str = JSON, accept: str = JSON,
        **parameters: str,
    ) -> Answer:  # fmt: skip
        """One request. Raises OSError when nobody answers."""
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=_LIMIT_S, context=self._tls)
        headers = {"Authorization": f"Bearer {self.token}", "Accept": accept, "Content-Type": content_type}
        try:
            target = f"{path}?{urlencode(parameters)}" if parameters else path
            connection.request(method, target, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        if response.headers.get_content_type() == JSON:
            return Answer(response.status, json.loads(data))
        return Answer(response.status, data.decode(errors="replace"))

    def get(self, path: str, **parameters: str) -> Answer:
        """GET of an object or a list."""
        return self.request("GET", path, **parameters)

    def create(self, document: Mapping[str, Any], **parameters: str) -> Answer:
        """POST of a new object. An unknown field is refused, as by kubectl."""
        parameters = {"fieldValidation": "Strict", **parameters}
        return self.request("POST", path_of(document, with_name=False), document, **parameters)

    def apply(self, document: Mapping[str, Any], manager: str = "tests", **parameters: str) -> Answer:
        parameters = {"fieldManager": manager, "force": "true", "fieldValidation": "Strict", **parameters}
        return self.request("PATCH", path_of(document), document, content_type=APPLY, **parameters)

    def merge(self, path: str, change: Mapping[str, Any]) -> Answer:
        """JSON merge patch; `path` may end with /status."""
        return self.request("PATCH", path, change, content_type=MERGE, fieldValidation="Strict")

    def delete(self, path: str) -> Answer:
        """DELETE of an object, or of all objects of a list."""
        return self.request("DELETE", path)

    def table(self, path: str) -> list[dict[str, str]]:
        """What `kubectl get` prints: the rows with their columns."""
        table = self.request("GET", path, accept=_TABLE).must()
        # kubectl shows columns of priority 0 without `-o wide`.
        columns = [(index, column) for index, column in enumerate(table["columnDefinitions"]) if not column["priority"]]
        return [
            {column["name"]: str("" if (cell := row["cells"][index]) is None else cell) for index, column in columns}
            for row in table["rows"] or ()
        ]


def printed(rows: list[dict[str, str]]) -> str:
    """Rows of `KubeClient.table` as kubectl prints them."""
    lines = [[name.upper() for name in rows[0]], *(list(row.values()) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
