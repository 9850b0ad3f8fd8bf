"""The checks of settings and of a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.operations.doctor import examine
from app.settings.load import Settings

CHANNEL = "apiVersion: messaging.knative.dev/v1beta1\nkind: KafkaChannel\nmetadata: {name: %s}\n"
WRONG = CHANNEL + "spec: {numPartitions: 0}\n"
LOOK = "`penstock validate FOLDER` says what is wrong"


@pytest.mark.parametrize(
    ("files", "level", "says", "hint"),
    [
        ([CHANNEL % "a"], "ok", "1 object, all valid", ""),
        ([CHANNEL % "a", CHANNEL % "b"], "ok", "2 objects, all valid", ""),
        ([CHANNEL % "a", WRONG % "b"], "problem", "1 error, in 1.yaml", LOOK),
        ([WRONG % "a", WRONG % "b"], "problem", "2 errors, in 0.yaml", LOOK),
        ([CHANNEL % "a", "kind: Pod\napiVersion: v1\nmetadata: {name: p}\n"], "warning", "1 warning", LOOK),
    ],
)
def test_directory(files: list[str], level: str, says: str, hint: str, tmp_path: Path) -> None:
    for number, text in enumerate(files):
        (tmp_path / f"{number}.yaml").write_text(text)
    found = examine._directory(Settings(resources=f"file:{tmp_path}"))
    assert found.level == level
    assert says in found.found
    assert found.hint == hint.replace("FOLDER", str(tmp_path))


def test_directory_that_is_not_there(tmp_path: Path) -> None:
    found = examine._directory(Settings(resources=f"file:{tmp_path}/none"))
    assert (found.level, found.found) == ("problem", f"The resources directory '{tmp_path}/none' does not exist.")
    assert found.hint.startswith("Make it and put the YAML")
