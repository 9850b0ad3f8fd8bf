"""Which namespace a command is about: `-n`, `-A` and `--context`, with the meaning that they have in kubectl.

Without any of them, commands are about all namespaces: what they read is in Kafka, which knows no current namespace.
"""

from __future__ import annotations

import re
from typing import Annotated

import typer

from knative.errors import UsageError
from knative.resources.destination import LABEL_PATTERN

Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Only this namespace; by default all namespaces.")]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces, even with -n.")]
Context = Annotated[
    str, typer.Option("--context", help="Only the namespace of this context of the kubeconfig, unless -n is given.")
]
#: For commands that ask the API server.
ClusterContext = Annotated[
    str, typer.Option("--context", help="Context of the kubeconfig; by default its current context.")
]


def chosen_namespace(namespace: str, everywhere: bool, context: str) -> str:
    """Returns the namespace that the options name; "" = all. Raises UsageError."""
    if everywhere:
        return ""
    if namespace and not re.fullmatch(LABEL_PATTERN, namespace, re.ASCII):
        raise UsageError(
            f"--namespace {namespace!r} is not a valid namespace name.", "Use lower-case letters, digits and '-'."
        )
    if context and not namespace:
        from app.operations.kube import namespace_of_context  # takes a second, and most commands need no cluster

        return namespace_of_context(context)
    return namespace
