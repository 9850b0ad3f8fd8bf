"""`penstock job traffic` as far as it goes without Spark: estimates from offsets, and what is refused before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agents.offsets.offset_tracker import OffsetTracker
from app.local.kafka import EmbeddedKafka
from tests.integration.cli_fixture import StoredInstallation
from tests.support.processes import free_port, run

pytestmark = pytest.mark.integration


@pytest.fixture
def site(kafka: EmbeddedKafka, topic_name: Callable[[], str]) -> StoredInstallation:
    return StoredInstallation.make(kafka.bootstrap, topic_name())


def test_offsets_alone_say_how_much_came_in_and_what_waits(site: StoredInstallation) -> None:
    slow = site.subscribe("slow")
    site.events(range(10), ago_s=3600)
    site.events(range(10, 16), ago_s=60)
    site.commit(slow, 0, OffsetTracker(5))

    rows = site.json("job", "traffic", "--offsets", "--since", "10m")

    counts = {(row["kind"], row["line"]): (row["events"], row["lag"]) for row in rows}
    assert counts == {("arrived", "ns/ch"): (6, None), ("settled", "ns/ch > slow"): (0, 11)}
    assert {row["tier"] for row in rows} == {"offsets (estimate)"}


def test_invalid_options_are_reported_before_spark_starts(site: StoredInstallation, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "one.txt").write_text("dear")
    for arguments, code, says in (
        (["--since", "1h", "--channel", "ns/none"], 1, "There is no channel ns/none; known: ns/ch."),
        (["--folder", str(tmp_path / "file" / "t")], 1, "cannot be written"),
        (["--folder", str(tmp_path / "letters")], 1, "do not belong to traffic tables: one.txt"),
        (["--folder", str(tmp_path / "letters"), "--reset"], 2, "Nothing was deleted"),
        (["--kafka", "127.0.0.1:1"], 3, "Kafka at 127.0.0.1:1 does not answer"),
        (["--since", "1h", "--reset"], 2, "Remove --follow and --reset"),
    ):
        done = site.penstock("job", "traffic", *arguments)
        assert done.returncode == code, done.stderr
        assert says in done.stderr
        assert "Traceback" not in done.stderr
    assert (tmp_path / "letters" / "one.txt").exists()


def test_store_that_does_not_answer_is_named(site: StoredInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing tells the user to delete tables that may be whole."""
    folder = f"s3a://bucket/traffic?region=x&scheme=http&endpoint_override=127.0.0.1:{free_port()}"
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    for arguments in (["traffic", "--since", "1h"], ["job", "traffic"], ["job", "topology", "--traffic", "windows"]):
        done = run(site.command(*arguments, "--folder", folder), site.environment(keys), 180)
        assert done.returncode == 1, done.stderr
        assert "bucket/traffic" in done.stderr
        assert "cannot be read" in done.stderr
        assert "This is a bug" not in done.stderr
        assert "--reset" not in done.stderr
