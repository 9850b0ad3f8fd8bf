"""A lock ends with its owner, however that ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app.local.kafka.locks import locked
from knative.errors import NotReadyError
from tests.support.processes import REPOSITORY

_OWNER = """
import sys, time
from pathlib import Path
from app.local.kafka.locks import locked
with locked(Path(sys.argv[1]), 10, "is busy"):
    print("x", flush=True)
    time.sleep(60)
"""


def test_lock_of_a_killed_owner_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", _OWNER, str(path)], stdout=subprocess.PIPE, cwd=REPOSITORY) as owner:
        assert owner.stdout is not None
        assert owner.stdout.read(1) == b"x"
        with pytest.raises(NotReadyError), locked(path, 0, "is busy"):
            pass
        owner.kill()
        owner.wait()
    with locked(path, 0, "is busy"):
        pass
