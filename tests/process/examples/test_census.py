"""Census files from an HTTP server; metrics on a port."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.census.metrics import served
from examples.census.read import FileRow, records_of
from examples.census.samples import write
from knative.errors import PenstockError
from tests.support.processes import free_port, get
from tests.support.scripted_server import answer, reply
from tests.support.subscriber import ScriptedSubscriber, says


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """Serves one file as `good`, and as `short`, which ends too early."""
    content = write(tmp_path, 2019, "jan", 35).read_bytes()
    with ScriptedSubscriber() as server:
        server.script("/good", says(200, content))
        server.script("/short", reply(answer(200, content)[:-10], keep=False))
        server.script("/missing", says(404))
        yield server.url("")


def test_file_is_downloaded_whole_or_its_problem_is_named(site: str) -> None:
    *records, row = records_of(2019, f"{site}/good")
    assert row == FileRow(f"{site}/good", 4, 35)
    assert len(records) == 4
    for url, part in (
        (f"{site}/short", "bytes arrived"),
        (f"{site}/missing", "404"),
        ("http://127.0.0.1:1/x", "could not be read (Connection refused)"),
    ):
        (bad,) = records_of(2019, url)
        assert isinstance(bad, FileRow)
        assert bad.problem is not None
        assert part in bad.problem


def test_metrics_are_counters_with_the_names_of_kafka_scale() -> None:
    counts, port = {"downloaded_gzips": 0, "chunks_written": 0}, free_port()
    with served(port, "127.0.0.1", lambda: counts):
        counts["chunks_written"] = 3
        lines = get(port, "/metrics")[1].decode().splitlines()
        with pytest.raises(PenstockError, match="--metrics-port"), served(port, "127.0.0.1", lambda: counts):
            pass
    assert lines == [
        "# TYPE kafka_scale_downloaded_gzips counter",
        "kafka_scale_downloaded_gzips 0",
        "# TYPE kafka_scale_chunks_written counter",
        "kafka_scale_chunks_written 3",
    ]
    assert get(port, "/metrics")[0] == 0
