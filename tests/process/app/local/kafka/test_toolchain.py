"""Java is found, or named with a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.local.kafka import toolchain
from knative.errors import PenstockError
from tests.support.processes import shell_program


def test_a_missing_program_is_named_with_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PenstockError, match=r"no `java`.*Install a JDK 17"):
        toolchain.find_java()
    shell_program(tmp_path, "java", "echo 'openjdk version \"11.0.2\"' >&2")
    with pytest.raises(PenstockError, match=r"Java 17 or newer, and .* is 11"):
        toolchain.find_java()
