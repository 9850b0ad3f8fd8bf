"""What is asked for, and what is said where it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.operations.doctor.examine import examine
from app.operations.doctor.table import CHECKS, Facts
from app.settings.load import Settings
from knative.errors import UsageError
from tests.support.processes import REPOSITORY
from tests.unit.app.operations.doctor.rows import Row, rows

CHANNEL = "apiVersion: messaging.knative.dev/v1beta1\nkind: KafkaChannel\nmetadata: {name: %s}\n"
WRONG = CHANNEL + "spec: {numPartitions: 0}\n"
LOOK = "`penstock validate FOLDER` says what is wrong"


NO_KAFKA = UsageError("The Kafka secret is not valid.", "Mend it.")


def _resources(resources: str) -> Row:
    (row,) = [row for row in rows(examine(Settings(resources=resources), NO_KAFKA, "")) if row.name == "resources"]
    return row


def test_check_that_fails_does_not_stop_the_others() -> None:
    assert rows(examine(Settings(), NO_KAFKA, "")) == [
        Row("settings", "ok", "valid; all defaults", ""),
        Row("Kafka secret", "problem", "The Kafka secret is not valid.", "Mend it."),
        Row("resources", "skipped", "PENSTOCK_RESOURCES is not set here", ""),
    ]
    wrong = UsageError("two\nlines", "x")
    assert rows(Facts(failed={"settings": wrong})) == [Row("settings", "problem", "two lines", "x")]


def test_reference_has_a_row_for_each_check() -> None:
    text = (REPOSITORY / "docs" / "reference" / "command-line.md").read_text()
    table = text.partition("| Check | What it asks |\n|---|---|\n")[2].partition("\n\n")[0]
    assert [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()] == [each.name for each in CHECKS]
    assert [f"| {each.name} | {each.question}" for each in CHECKS] == [
        line[: line.index("?") + 1] for line in table.splitlines()
    ]


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
def test_directory_is_judged_by_its_files(files: list[str], level: str, says: str, hint: str, tmp_path: Path) -> None:
    for number, text in enumerate(files):
        (tmp_path / f"{number}.yaml").write_text(text)
    row = _resources(f"file:{tmp_path}")
    assert row.level == level
    assert says in row.text
    assert row.hint == hint.replace("FOLDER", str(tmp_path))


def test_directory_that_is_not_there(tmp_path: Path) -> None:
    row = _resources(f"file:{tmp_path}/none")
    assert (row.level, row.text) == ("problem", f"The resources directory '{tmp_path}/none' does not exist.")
    assert row.hint.startswith("Create it and put the YAML")
