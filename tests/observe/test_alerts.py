"""The alert rules by promtool: that they are valid, and on made-up series when each one fires."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.prometheus import write_rules

CASES = sorted((Path(__file__).parent / "alerts").glob("*.yaml"))
LIMIT_S = 120.0


def _promtool(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["promtool", *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )


def test_rules_are_valid(tmp_path: Path) -> None:
    done = _promtool("check", "rules", "--lint=all", "--lint-fatal", write_rules(tmp_path).name, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_alerts_fire_when_they_should(case: Path, tmp_path: Path) -> None:
    write_rules(tmp_path)
    shutil.copy(case, tmp_path)
    done = _promtool("test", "rules", case.name, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alert_that_does_not_fire_is_found(tmp_path: Path) -> None:
    rules = write_rules(tmp_path)
    rules.write_text(rules.read_text().replace("> 900", "> 90000"))
    shutil.copy(CASES[0].with_name("delivery.yaml"), tmp_path)
    done = _promtool("test", "rules", "delivery.yaml", folder=tmp_path)
    assert done.returncode != 0
    assert "PenstockSubscriptionBehind" in done.stdout + done.stderr
