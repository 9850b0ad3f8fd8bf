"""What stands in several files of the project and must agree: checks, versions of Python, lock files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from tests.support.kube.build import GO_LEAST

_REPOSITORY = Path(__file__).parents[2]
_RUN, _OTEL, _REPORT, _ALL, _DEV = (f"requirements{part}.lock" for part in ("", "-otel", "-report", "-all", "-dev"))
_LOCKS = (_RUN, _OTEL, _REPORT, _ALL, _DEV)


def _text(path: str) -> str:
    return (_REPOSITORY / path).read_text()


def _pins(path: str) -> set[str]:
    """`name==version ; marker` of each line that pins something."""
    return set(re.findall(r"^([a-z0-9][\w.-]*==[^\\\n]+?) *\\$", _text(path), re.MULTILINE))


def test_pre_commit_checks_what_make_check_checks() -> None:
    config: Any = yaml.safe_load(_text(".pre-commit-config.yaml"))
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"] if hook["id"] != "unit-tests"]
    ours = {hook["entry"].removesuffix(" --fix") for hook in hooks}
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", _text("Makefile"), re.MULTILINE)
    assert recipe is not None
    lines = recipe[1].replace("$(BIN)", ".venv/bin").splitlines()
    assert ours == {line.strip().removesuffix(" .").removesuffix(" --check") for line in lines if "ruff" in line} | {
        line.strip() for line in lines if "ruff" not in line
    }


def test_hosted_ci_runs_the_oldest_and_a_newer_python() -> None:
    workflow: Any = yaml.safe_load(_text(".github/workflows/ci.yml"))
    job = workflow["jobs"]["all"]
    oldest = tomllib.loads(_text("pyproject.toml"))["project"]["requires-python"].removeprefix(">=")
    assert job["strategy"]["matrix"]["python"][0] == oldest
    assert {step["run"] for step in job["steps"] if "run" in step} == {".ci/run"}


def test_actions_are_pinned_by_their_commits() -> None:
    workflows = "\n".join(path.read_text() for path in (_REPOSITORY / ".github" / "workflows").iterdir())
    actions = re.findall(r"uses: (\S+)", workflows)
    assert actions
    assert [action for action in actions if not re.search(r"@[0-9a-f]{40}$", action)] == []


def test_ci_has_the_go_that_the_api_server_of_the_tests_is_built_with() -> None:
    workflow: Any = yaml.safe_load(_text(".github/workflows/ci.yml"))
    (step,) = (candidate for candidate in workflow["jobs"]["all"]["steps"] if "setup-go" in candidate.get("uses", ""))
    least = ".".join(map(str, GO_LEAST))
    assert step["with"]["go-version"] == least
    assert (_REPOSITORY / step["with"]["cache-dependency-path"]).is_file()
    for sources in ("core", "server"):
        assert re.search(rf"^go {re.escape(least)}\.", _text(f"tests/support/kube/{sources}/go.mod"), re.MULTILINE)
    script = _text(".ci/run")
    assert re.search(rf"^go_toolchain=go{re.escape(least)}\.\d+$", script, re.MULTILINE)
    assert f"go_is_at_least {GO_LEAST[1]} " in script


def test_ci_runs_every_ring() -> None:
    steps = re.search(r"^for step in (.*); do$", _text(".ci/run"), re.MULTILINE)
    assert steps is not None
    makefile = _text("Makefile")
    rings = {path.name for path in (_REPOSITORY / "tests").iterdir() if any(path.glob("**/test_*.py"))}
    rings -= {"image", "observe"}  # need programs that are not everywhere: steps of each release
    run = "".join(re.findall(r"^(?:PARALLEL_RINGS|KAFKA_RINGS) :=.*", makefile, re.MULTILINE))
    targets = {"test" if re.search(rf"\b{ring}\b", run) else f"test-{ring}" for ring in rings}
    assert {"check", "test-cluster"} | targets <= set(steps[1].split()), "a ring that nobody runs"


@pytest.mark.parametrize(
    ("part", "whole"),
    [(part, whole) for part in (_OTEL, _REPORT) for whole in (_ALL, _DEV)] + [(_RUN, _OTEL), (_RUN, _REPORT)],
)
def test_lock_file_is_a_part_of_another(part: str, whole: str) -> None:
    assert _pins(part)
    names = {pin.partition("==")[0] for pin in _pins(part)}
    versions = {pin.partition(" ;")[0] for pin in _pins(whole)}
    assert {pin.partition(" ;")[0] for pin in _pins(part)} <= versions
    assert names < {pin.partition("==")[0] for pin in _pins(whole)}


def test_lock_files_that_are_installed_together_agree() -> None:
    every, dev = (dict(pin.partition(" ;")[0].split("==") for pin in _pins(path)) for path in (_ALL, _DEV))
    shared = every.keys() & dev.keys()
    assert {name: every[name] for name in shared} == {name: dev[name] for name in shared}


def test_lock_files_name_no_registry() -> None:
    texts = {path: _text(path) for path in (*_LOCKS, "requirements-image.lock", "requirements-site.lock")}
    assert [path for path, text in texts.items() if "://" in text or re.search(r"^-", text, re.MULTILINE)] == []


def test_workers_lock_has_no_spark_and_no_opentelemetry() -> None:
    names = {pin.partition("==")[0] for pin in _pins("requirements.lock")}
    assert "faust-streaming" in names
    assert not {"pyspark", "numpy", "pandas", "pyarrow", "scipy", "opentelemetry-sdk", "pytest"} & names


def test_what_is_not_maintained_is_in_no_lock_file() -> None:
    assert [path for path in _LOCKS if any(pin.startswith("nose==") for pin in _pins(path))] == []


def test_exact_versions_are_for_libraries_whose_internals_or_jars_are_used() -> None:
    project = tomllib.loads(_text("pyproject.toml"))["project"]
    extras = (text for texts in project["optional-dependencies"].values() for text in texts)
    requirements = [Requirement(text) for text in (*project["dependencies"], *extras)]
    operators = {pin.name: {part.operator for part in pin.specifier} for pin in requirements if pin.specifier}
    exact = {name for name, signs in operators.items() if "==" in signs}
    assert exact == {"faust-streaming", "mode-streaming", "aiokafka", "pyspark", "graphframes-py"}
    assert {name for name, signs in operators.items() if signs != {">=", "<"}} == exact


def test_wheel_says_what_it_is() -> None:
    project = tomllib.loads(_text("pyproject.toml"))["project"]
    assert project["authors"] == [{"name": "The Penstock authors"}]
    assert "urls" not in project, "there is no page to name yet"
    oldest = project["requires-python"].removeprefix(">=")
    assert f"Programming Language :: Python :: {oldest}" in project["classifiers"]
    assert "Typing :: Typed" in project["classifiers"]
    assert (_REPOSITORY / "penstock" / "py.typed").is_file()
