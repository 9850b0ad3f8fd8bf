"""Census files from an HTTP server, with a limit; metrics on a port."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from analytics.census.generator import Recipe, write
from analytics.census.sources import Source
from app.census import inputs
from app.census.metrics import CHUNKS_WRITTEN, DOWNLOADED, CensusMetrics, shown
from app.census.reader import ReadConfig, read_all
from knative.errors import PenstockError
from tests.support.kept_records import Kept
from tests.support.processes import free_port, get
from tests.support.serving import serving


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write(tmp_path, 2019, "jan", Recipe(35)).path


class _Site(BaseHTTPRequestHandler):
    """Serves its server's files; `flaky` fails twice first, `short` ends too early."""

    def do_GET(self) -> None:
        files: dict[str, bytes] = self.server.files  # type: ignore[attr-defined]
        name = self.path.rpartition("/")[2]
        asked: list[str] = self.server.asked  # type: ignore[attr-defined]
        asked.append(name)
        status = 404 if name not in files else 503 if name == "flaky" and asked.count(name) < 3 else 200
        body = files.get(name, b"") if status == 200 else b""
        self.send_response(status)
        self.send_header("content-length", str(len(body) + 10 * (name == "short")))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, whole: Path) -> Iterator[HTTPServer]:
    monkeypatch.setattr(inputs, "LOOK_S", 0.0)
    server = HTTPServer(("127.0.0.1", 0), _Site)
    server.files = dict.fromkeys(("good", "flaky", "short"), whole.read_bytes())  # type: ignore[attr-defined]
    server.asked = []  # type: ignore[attr-defined]
    with serving(server):
        yield server


def test_downloads(site: HTTPServer) -> None:
    base = f"http://127.0.0.1:{site.server_port}/"
    fetched: list[int] = []
    sink = Kept()
    names = ("good", "flaky", "short", "missing")
    sources = [Source(2019, name, url=base + name) for name in names] + [Source(2019, "x", url="http://127.0.0.1:1/x")]
    rows = read_all(sources, sink, ReadConfig(fetched=lambda: fetched.append(1)))

    assert [row.chunks for row in rows] == [4, 4, 0, 0, 0]
    assert "of" in rows[2].problem
    assert "404" in rows[3].problem
    assert "could not be downloaded" in rows[4].problem
    assert len(fetched) == 2
    assert len(sink.records) == 8


def test_a_download_has_a_limit(site: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "DOWNLOAD_BYTES_MAX", 100)
    rows = read_all([Source(2019, "good", url=f"http://127.0.0.1:{site.server_port}/good")], Kept(), ReadConfig())
    assert "the limit of" in rows[0].problem


def test_metrics_are_shown_under_their_names() -> None:
    metrics = CensusMetrics(DOWNLOADED, CHUNKS_WRITTEN)
    metrics.add(CHUNKS_WRITTEN, 3)
    port = free_port()
    with shown(metrics, port, "127.0.0.1"):
        lines = get(port, "/metrics")[1].decode().splitlines()
        with pytest.raises(PenstockError, match="--metrics-port"), shown(metrics, port, "127.0.0.1"):
            pass
    assert {"kafka_scale_downloaded_gzips 0.0", "kafka_scale_chunks_written 3.0"} <= set(lines)
    assert get(port, "/metrics")[0] == 0
