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


@pytest.mark.parametrize("lock", ["lock", "kafka/lock", "kafka/libs.lock"])
def test_make_clean_leaves_what_a_command_uses(lock: str, tmp_path: Path) -> None:
    path = tmp_path / ".penstock" / lock
    path.parent.mkdir(parents=True)
    command = ["make", "-f", str(REPOSITORY / "Makefile"), "clean"]
    with locked(path, 0, "is busy"):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode != 0
        assert f"it has locked .penstock/{lock}. Stop it (Ctrl-C in its terminal)." in done.stderr
        assert path.exists()
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    assert not path.exists()
