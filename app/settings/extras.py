"""The optional parts of the installation, and the error message when one of them is missing.

    pip install penstock               a worker and the commands
    pip install 'penstock[report]'     the topology and its report
    pip install 'penstock[analytics]'  jobs on Spark too
    pip install 'penstock[otel]'       traces of a worker

In a clone, where Penstock is installed from its folder: .venv/bin/pip install -e '.[report]'

The packages behind each name are in pyproject.toml.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from knative.errors import UsageError

REPORT = "report"
ANALYTICS = "analytics"
OTEL = "otel"

_REPORT_MODULES = ("numpy", "pyarrow")
#: Extra -> its modules that Penstock imports.
MODULES = {
    REPORT: _REPORT_MODULES,
    ANALYTICS: (*_REPORT_MODULES, "graphframes", "pandas", "py4j", "pyspark"),
    OTEL: (
        "opentelemetry.sdk",
        "opentelemetry.exporter.otlp.proto.http",
        "opentelemetry.instrumentation.aiohttp_client",
        "opentelemetry.instrumentation.aiohttp_server",
    ),
}
#: Extra -> the size of its packages, in MB to download.
MEGABYTES = {REPORT: 75, ANALYTICS: 525, OTEL: 2}
_IN_CLONE = (Path(__file__).parents[2] / "pyproject.toml").is_file()
#: Modules that a Spark job needs on this machine.
SPARK_MODULES = ("pyarrow", "pyspark")


def need(extra: str, what: str, modules: tuple[str, ...] = ()) -> None:
    """Check, before `what` starts, that `modules` are installed (all of the extra if none are named).

    Raises UsageError, which names the packages to install.
    """
    missing = [name for name in modules or MODULES[extra] if not _is_installed(name)]
    if missing:
        raise _error(extra, what, missing)


def error_of(problem: ModuleNotFoundError, what: str) -> UsageError | None:
    """Returns the error of `need` for an import that failed, or None if the module belongs to no extra."""
    top = (problem.name or "").partition(".")[0]
    for extra, modules in MODULES.items():
        if top and top in {name.partition(".")[0] for name in modules}:
            return _error(extra, what, [top])
    return None


def _error(extra: str, what: str, missing: list[str]) -> UsageError:
    verb = "is" if len(missing) == 1 else "are"
    return UsageError(
        f"{what} needs {', '.join(missing)}, which {verb} not installed.", f"Run {install_command(extra)}."
    )


def install_command(extra: str) -> str:
    """Returns the command that installs an extra, for a sentence."""
    if _IN_CLONE:
        return f"`.venv/bin/pip install -e '.[{extra}]'` in the folder of the clone"
    return f"`pip install 'penstock[{extra}]'`"


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the parent package is not installed
        return False
