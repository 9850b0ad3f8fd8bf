"""A process raises its own limit of open files."""

from __future__ import annotations

import os
import sys

from tests.support.processes import run


def test_process_under_the_usual_limit_gets_more() -> None:
    code = (
        "import resource; from app.worker import file_limits\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))\n"
        "told = file_limits.allow(300)\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= min(500, hard), told)"
    )
    done = run([sys.executable, "-c", code], os.environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "None"]
