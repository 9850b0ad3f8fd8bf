"""What is read of a process whose threads, files and children come and go all the time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.proc import children, open_files, pss_mb, thread_names, tree
from tests.support.processes import REPOSITORY, wait_until

LOOKS = 300
LIMIT_S = 180
#: Has one child that stays. Threads of it end all the time, with files that they opened, and so do other children.
_RESTLESS = """
import subprocess, sys, threading
stays = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
print(stays.pid, flush=True)
def opens():
    with open("/dev/null"):
        pass
def begins(target):
    while True:
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
for target in (opens, opens, lambda: subprocess.run(["true"], check=True)):
    threading.Thread(target=begins, args=[target]).start()
"""


@pytest.fixture
def restless() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """And the child that stays."""
    with subprocess.Popen([sys.executable, "-c", _RESTLESS], stdout=subprocess.PIPE, cwd=REPOSITORY) as process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
        process.kill()


def test_what_ends_while_it_is_read_is_left_out(restless: tuple[subprocess.Popen[bytes], int]) -> None:
    pid, stays = restless[0].pid, restless[1]
    for _ in range(LOOKS):
        assert stays in children(pid), "Linux skips none"
        below = tree(pid)
        assert below[stays].parent == pid
        assert below[pid].parent == os.getpid()
        assert pid in thread_names(pid)
        assert open_files(pid)[1].startswith("pipe:")


def test_of_a_process_that_has_ended_nothing_is_read(restless: tuple[subprocess.Popen[bytes], int]) -> None:
    process, stays = restless
    process.kill()
    process.wait()
    assert (children(process.pid), tree(process.pid)) == ([], {})
    assert (thread_names(process.pid), open_files(process.pid)) == ({}, {})
    wait_until("its child reads the end of its input", lambda: not tree(stays), LIMIT_S)


def test_process_that_was_not_waited_for_is_still_a_child() -> None:
    with subprocess.Popen(["true"]) as process:
        assert process.pid in children(os.getpid())
        assert process.pid in tree(os.getpid())
    assert process.pid not in children(os.getpid())


def test_memory_that_only_one_process_has_counts_whole() -> None:
    before_mb = pss_mb(os.getpid())
    block = b"x" * 64_000_000
    assert 60 < pss_mb(os.getpid()) - before_mb < 68
    assert block
