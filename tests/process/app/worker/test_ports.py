"""The sockets of a worker's ports outlive its program; nothing else does, and signals wait."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from app.local.kafka.ports import LOOPBACK
from tests.support.processes import REPOSITORY, clean_environment, free_port

LIMIT_S = 180.0

#: First it listens, leaves a connection in the queue and executes itself; then it says what it has, and answers.
PROGRAM = """
import os, signal, socket, sys, threading, time
from app.worker.ports import Ports, handle_signals
port = int(sys.argv[1])
ports = Ports()
ports.take(("127.0.0.1", port), ("127.0.0.1", port + 1))
(listener,) = ports.ingress
if "second" not in os.environ:
    os.environ["second"] = "yes"
    for one in (*ports.ingress, *ports.admin):
        one.listen()
    os.set_inheritable(os.open("/dev/null", os.O_RDONLY), True)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    print(os.getpid(), flush=True)
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGHUP)  # no handler: it would end the process
    ports.pass_on()
    ports.execute_again()
signal.signal(signal.SIGHUP, lambda *_: print("SIGHUP", flush=True))
handle_signals()
print(os.getpid(), [name for name in os.environ if name.startswith("LISTEN_")], flush=True)
paths = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd") if int(name) > 2]
files = [os.readlink(path) for path in paths if os.path.islink(path)]
print(sum(file.startswith("socket:") for file in files), [file for file in files if "null" in file], flush=True)
listener.setblocking(True)
listener.accept()[0].sendall(b"hello")
"""


def test_program_executes_itself_with_its_sockets(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "program.py").write_text(PROGRAM)
    env = clean_environment() | {"PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, str(tmp_path / "program.py"), str(port)]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pid = process.stdout.readline().strip()
            with socket.create_connection((LOOPBACK, port), LIMIT_S) as waiting:
                process.stdin.write("go\n")
                process.stdin.flush()
                assert waiting.recv(100) == b"hello"
            said = process.stdout.read().splitlines()
        finally:
            process.kill()
    assert pid == str(process.pid)
    assert said == ["SIGHUP", f"{pid} []", "2 []"]


def test_sockets_of_another_process_are_not_taken(tmp_path: Path) -> None:
    """systemd's variables, inherited by a process that they are not for."""
    code = "from app.worker.ports import Ports; p = Ports(); p.take(None, None); print('fine')"
    env = clean_environment() | {"PYTHONPATH": str(REPOSITORY), "LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
