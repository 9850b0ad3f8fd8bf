"""The parts of the installation that are optional, and the sentence for what needs one that is not there.

    pip install penstock               a worker and the commands
    pip install 'penstock[analytics]'  reports, the topology and jobs on Spark
    pip install 'penstock[otel]'       traces of a worker

The packages behind each name are in pyproject.toml.
"""

from __future__ import annotations

from importlib.util import find_spec

from knative.errors import UsageError

ANALYTICS = "analytics"
OTEL = "otel"

#: Extra -> the modules of it that are imported here.
MODULES = {
    ANALYTICS: ("graphframes", "jinja2", "numpy", "pandas", "py4j", "pyarrow", "pyspark", "scipy"),
    OTEL: (
        "opentelemetry.sdk",
        "opentelemetry.exporter.otlp.proto.http",
        "opentelemetry.instrumentation.aiohttp_client",
        "opentelemetry.instrumentation.aiohttp_server",
    ),
}
#: What `penstock topology` needs; Spark only where Spark is asked for.
REPORT_MODULES = ("jinja2", "numpy", "pyarrow", "scipy")
#: What a job on Spark needs on this machine.
SPARK_MODULES = ("pyarrow", "pyspark")


def need(extra: str, what: str, modules: tuple[str, ...] = ()) -> None:
    """Check, before `what` begins, that `modules` can be imported (all of the extra's if none are named).

    Raises UsageError, which names the packages to install.
    """
    missing = [name for name in modules or MODULES[extra] if not _is_installed(name)]
    if missing:
        raise _error(extra, what, missing)


def error_of(problem: ModuleNotFoundError, what: str) -> UsageError | None:
    """The same error for an import that failed, or None if the module belongs to no extra."""
    top = (problem.name or "").partition(".")[0]
    for extra, modules in MODULES.items():
        if top and top in {name.partition(".")[0] for name in modules}:
            return _error(extra, what, [top])
    return None


def _error(extra: str, what: str, missing: list[str]) -> UsageError:
    verb = "is" if len(missing) == 1 else "are"
    return UsageError(
        f"{what} needs {', '.join(missing)}, which {verb} not installed: pip install 'penstock[{extra}]'."
    )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is not there
        return False
