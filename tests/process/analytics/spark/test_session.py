"""What a child process of Spark's start leaves behind, our modules as another Python sees them, and who listens."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from analytics.spark.jvm_log import Listener
from analytics.spark.pyfiles import write_zip
from app.operations.spark_jars import check_place
from knative.errors import NotReadyError, PenstockError, UsageError


def test_childs_last_words_are_kept(capfd: pytest.CaptureFixture[str]) -> None:
    listener = Listener()
    with subprocess.Popen([sys.executable, "-c", "import os; os.write(2, b'first\\nlast')"], stderr=listener.inlet):
        listener.close_inlet()
    listener.close_inlet()

    assert listener.last_lines(20) == ["first", "last"]
    assert capfd.readouterr().err.startswith("first\n")


def test_our_modules_travel_as_a_zip(tmp_path: Path) -> None:
    first = write_zip(tmp_path)
    content = first.read_bytes()

    assert write_zip(tmp_path).read_bytes() == content
    names = zipfile.ZipFile(first).namelist()
    assert {"knative/traffic/latency_sketch.py", "analytics/spark/session.py", "analytics/traffic/frames.py"} <= set(
        names
    )
    assert not [name for name in names if name.startswith("app")]
    asked = subprocess.run(
        [sys.executable, "-S", "-c", "import knative, analytics.traffic.seen; print(knative.__file__)"],
        capture_output=True, text=True, check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(first)},
    )  # fmt: skip
    assert first.name in asked.stdout


@pytest.mark.parametrize(
    ("address", "says", "kind"),
    [
        ("spark://127.0.0.1:1", "No Spark master answers at spark://127.0.0.1:1", NotReadyError),
        ("sc://127.0.0.1:1", "No Spark Connect server answers", NotReadyError),
        ("spark://127.0.0.1:x", "is not a valid address.*spark://HOST:7077", UsageError),
    ],
)
def test_address_without_a_server(address: str, says: str, kind: type[PenstockError]) -> None:
    with pytest.raises(kind, match=says):
        check_place(address)


def test_one_master_of_several_is_enough() -> None:
    """And says at which address a cluster there reaches this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert check_place(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}") == "127.0.0.1"
    assert check_place("local[*]") is None
