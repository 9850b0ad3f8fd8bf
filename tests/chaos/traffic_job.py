"""`python -m tests.chaos.traffic_job`: `penstock job traffic`, killed at ten random moments while it writes.

Each run is the real command in a process of its own, with batches so small that most kills come in the middle of one.
In the end a run that is left alone must make the tables equal to the ledger: every count and every bucket of latency.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from analytics.traffic.dataset import Dataset
from analytics.traffic.read import read_windows
from app.local.kafka import EmbeddedKafka
from tests.integration.cli_fixture import StoredInstallation
from tests.support.processes import REPOSITORY, wait_until
from tests.support.traffic import Sent, shown


def _wait_for_files(folder: Path, job: subprocess.Popen[bytes]) -> None:
    """Until the run begins to write: a start takes longer than all that follows, and has nothing to lose."""

    def files() -> set[str]:
        walks = (os.walk(folder / name) for name in ("windows", "commits"))  # passes over what goes meanwhile
        return {f"{place}/{name}" for entries in walks for place, folders, names in entries for name in folders + names}

    before = files()
    wait_until("it writes", lambda: bool(files() - before) or job.poll() is not None, 900.0)


def main() -> None:
    """Send, kill, again; then compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.traffic_job", description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=float, default=20.0, help="seconds to a kill, at most")
    wish = parser.parse_args()
    dice = random.Random(wish.seed)
    with tempfile.TemporaryDirectory(prefix="penstock-chaos-") as name:
        root = Path(name)
        with EmbeddedKafka(root / "kafka", port=0, heap="384m", jars_root=REPOSITORY / ".penstock" / "kafka") as kafka:
            site = StoredInstallation.make(kafka.bootstrap, "chaos")
            site.subscribe("sub")
            sent = Sent(kafka.bootstrap, site.instance, {site.topic: ("ns", "ch")})
            sent.make_traffic_topic()
            command = site.command("job", "traffic", "--master", "local[1]", "--batch", "1000")
            command += ["--folder", str(root / "traffic")]
            begin = int(time.time()) // 60 * 60 - 3600
            for number in range(wish.kills):
                sent.records(site.topic, 1500, begin + 300 * number, 300)
                sent.deltas("w", ("ns", "ch"), range(begin + 300 * number, begin + 300 * number + 300))
                with subprocess.Popen(command, stderr=subprocess.PIPE, env=site.environment(), cwd=REPOSITORY) as job:
                    _wait_for_files(root / "traffic", job)
                    time.sleep(dice.uniform(0.0, wish.most))
                    job.send_signal(signal.SIGKILL)
                last = Dataset(root / "traffic").last()
                print(f"kill {number + 1}: {'commit ' + str(last.run) if last else 'no commit'}", flush=True)
            subprocess.run(command, check=True, env=site.environment(), cwd=REPOSITORY, timeout=900)
            equal = shown(read_windows(root / "traffic")) == sent.expected()
            events = sum(window.counts.events for window in read_windows(root / "traffic"))
            print(f"{events:,} events in the tables; {'equal to the ledger' if equal else 'DIFFERENT'}")
            raise SystemExit(not equal)


if __name__ == "__main__":
    main()
