"""Runs two rings of tests at the same time: one that only computes, and one with Kafka, whose tests often wait.

    python -m tests.support.rings PROCESSES PATH... -- PROCESSES PATH...

The second begins when the archives of Java classes are there. What the first has written is shown at the end; if it
fails, the second is interrupted.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence

#: At its end, pytest writes which tests have failed. `make t` reads what the first ring writes.
_CACHE_OF_SECOND = "cache_dir=.penstock/pytest_cache"
_END_LIMIT_S = 120.0


def run_beside(beside: Sequence[str], prepare: Sequence[str], then: Sequence[str]) -> int:
    """Run `beside` at the same time as `prepare` and, after that, `then`. The exit code of one that failed, or 0."""
    with tempfile.TemporaryFile() as output:
        with _started(subprocess.Popen(beside, stdout=output, stderr=output)) as first:
            with _started(subprocess.Popen(prepare)) as preparation:
                code = preparation.wait()
            if code == 0:
                with _started(subprocess.Popen(then)) as second:
                    threading.Thread(target=_interrupt_if_it_fails, args=(first, second), daemon=True).start()
                    code = second.wait()
            code = first.wait() or code
        output.seek(0)
        print(output.read().decode(errors="replace"), end="", flush=True)
    return code


def _interrupt_if_it_fails(first: subprocess.Popen[bytes], second: subprocess.Popen[bytes]) -> None:
    if first.wait() != 0 and second.poll() is None:
        print("\nThe other ring has failed: this one is interrupted.", flush=True)
        second.send_signal(signal.SIGINT)


@contextlib.contextmanager
def _started(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Wait for its end when there is a Ctrl-C, which a terminal sends to all: it has processes of its own to stop."""
    try:
        yield process
    except KeyboardInterrupt:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_LIMIT_S)
        raise
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def main(arguments: Sequence[str]) -> int:
    """Run them. The exit code."""
    cut = arguments.index("--")
    processes, *paths = arguments[:cut]
    kafka_processes, *kafka_paths = arguments[cut + 1 :]
    pytest = [sys.executable, "-m", "pytest", "--dist", "loadfile"]
    return run_beside(
        [*pytest, "-n", processes, *paths],
        [sys.executable, "-m", "tests.support.java_classes"],
        [*pytest, "-n", kafka_processes, "--no-loadscope-reorder", "-o", _CACHE_OF_SECOND, *kafka_paths],
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
