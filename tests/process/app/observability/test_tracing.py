"""A worker without tracing does not load OpenTelemetry."""

from __future__ import annotations

import subprocess
import sys


def test_a_worker_without_an_endpoint_does_not_import_opentelemetry() -> None:
    code = (
        "import sys, app.compose; from app.settings.load import Settings; app.compose.build(Settings());"
        "print([m for m in sys.modules if m.startswith('opentelemetry')])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "[]"
