"""Optional parts of the installation: one sentence for what is missing, and pyproject.toml lists what we import."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from app.settings.extras import ANALYTICS, MODULES, REPORT, SPARK_MODULES, error_of, need
from knative.errors import UsageError

_PROJECT = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]


def _names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[=<>~!; ]", requirement)[0].lower().replace("_", "-") for requirement in requirements}


def test_need_names_what_is_missing_and_the_extra() -> None:
    with pytest.raises(UsageError) as caught:
        need(ANALYTICS, "`penstock topology`", ("numpy", "penstock_absent", "penstock_absent.child"))
    assert str(caught.value) == (
        "`penstock topology` needs penstock_absent, penstock_absent.child, which are not installed. "
        "Run `.venv/bin/pip install -e '.[analytics]'` in the folder of the clone."
    )
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("module", "extra"),
    [("pyspark.sql", "analytics"), ("opentelemetry", "otel"), ("json", None), ("", None), ("numpyish", None)],
)
def test_failed_import_is_an_error_of_its_extra(module: str, extra: str | None) -> None:
    error = error_of(ModuleNotFoundError(f"No module named {module!r}", name=module), "This command")
    if extra is None:
        assert error is None
    else:
        assert str(error) == (
            f"This command needs {module.partition('.')[0]}, which is not installed. "
            f"Run `.venv/bin/pip install -e '.[{extra}]'` in the folder of the clone."
        )


def test_base_lists_nothing_of_an_extra() -> None:
    base = _names(_PROJECT["dependencies"])
    for extra in MODULES:
        assert not base & _names(_PROJECT["optional-dependencies"][extra])


def test_named_parts_belong_to_analytics() -> None:
    assert set(MODULES[REPORT]) | set(SPARK_MODULES) <= set(MODULES[ANALYTICS])
