"""`penstock controller`: a worker that only reconciles; or, with --once, one that ends when that is done."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from app.cli.options.given import as_settings
from app.cli.output.format import note
from app.cli.worker import worker
from app.settings import load_settings


def controller(
    once: Annotated[bool, typer.Option("--once", help="Exit when Kafka matches the resources.")] = False,
    resources: Annotated[
        str, typer.Option("--resources", help="Directory of YAML files, or cluster:[NS,...]; by default cluster:.")
    ] = "",
    kafka: Annotated[str, typer.Option("--kafka", help="HOST:PORT[,...] of Kafka.")] = "",
    context: Annotated[str, typer.Option("--context", help="Context of the kubeconfig.")] = "",
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds that --once may take.", min=1)] = 120.0,
    log_level: Annotated[str, typer.Option("--log-level", "-l", help="debug, info, warning or error.")] = "",
) -> None:
    """Run the controller alone. It makes Kafka match the resources.

    Exit code with --once: 0 if Kafka matches the resources, else 3.

    \b
    Examples:
      penstock controller --kafka kafka:9092
      penstock controller --resources cluster:orders,billing --context production
      penstock controller --once --resources my-resources
    """
    resources = load_settings(as_settings(resources=resources)).resources or "cluster:"
    if not once:
        more = [f"kube_context={context}"] if context else []
        worker("controller", kafka, resources, "", log_level, more)
        return
    # An `import` at the top would take a second of each start of a worker.
    from app.worker.controller_once import reconcile_once

    log_level = log_level or "warning"
    options = as_settings(resources=resources, kafka=kafka, kube_context=context, log_level=log_level)
    asyncio.run(reconcile_once(load_settings(options), timeout_s))
    note("Reconciled: Kafka and the contract match the resources. `penstock status` shows when workers serve them.")
