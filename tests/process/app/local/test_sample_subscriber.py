"""The sample subscriber as a process."""

from __future__ import annotations

import http.client
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from app.local.kafka.ports import is_open
from tests.support.processes import free_port, wait_until

_REPOSITORY = Path(__file__).parents[4]
_QUICKSTART = _REPOSITORY / "examples" / "quickstart"


def test_sample_subscriber_takes_the_largest_heads() -> None:
    """As many attributes, and as long ones, as ingress takes."""
    port = free_port()
    command = [sys.executable, "-m", "app.local.sample_subscriber", "--port", str(port), "--quiet"]
    with subprocess.Popen(command, cwd=_QUICKSTART.parents[1]) as process:
        try:
            wait_until("it listens", lambda: is_open(port), 30)
            for headers in ({f"ce-x{number}": "a" for number in range(500)}, {"ce-x": "%20" * 131_072}):
                with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=180)) as client:
                    client.request("POST", "/good", b"{}", {"ce-id": "1", **headers})
                    assert client.getresponse().status == 200
        finally:
            process.terminate()
        assert process.wait(180) == 0
