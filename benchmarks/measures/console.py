"""The console: what it costs a worker while nobody looks, and with 20 open tabs, beside a worker that has none.

Both workers deliver the same load to 20 subscriptions at the same time, so that every page changes and the machine
is as busy for both. A tab is a connection that reads the live part of a page, as a browser does: the overview, pages of
subscriptions, of the channel; the map for itself, because its findings need numpy. The load is slow, so that
what varies in it hides nothing. Only Penstock has a console.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from benchmarks.figures import Row
from benchmarks.implementation import Implementation
from benchmarks.lab import Lab
from benchmarks.measures.analytics import own
from benchmarks.measures.measure import Measure, Values
from tests.support.installation import Installation
from tests.support.processes import LoadProcess, SinkProcess, Worker
from tests.support.resources import NAMESPACE, Wanted

IDLE = Row("console, nobody looks: cores more than without", "cores", 0.003, digits=3)
IDLE_MEMORY = Row("console, nobody looks: RSS more than without", "MB")
TABS = Row("console, 20 open tabs: cores", "cores", 0.03, digits=3)
TABS_MEMORY = Row("console, 20 open tabs: RSS", "MB", 20)
MAP = Row("console, the map open in addition: cores", "cores", digits=3)
MAP_MEMORY = Row("console, the map open in addition: RSS", "MB")

_SUBSCRIPTIONS, _RATE, _SAMPLE_S, _READY_S = 20, 2, 20.0, 180.0


class Tabs:
    """Pages that are open: their streams are read as they come. `chunks`: how many times one had something to say."""

    def __init__(self, port: int, paths: Sequence[str]) -> None:
        self._port, self._paths = port, paths
        self._sockets: list[socket.socket] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._read, name="tabs")
        self.chunks = 0

    def __enter__(self) -> Tabs:
        for path in self._paths:
            connection = socket.create_connection(("127.0.0.1", self._port), _READY_S)
            head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nAccept: text/event-stream\r\n\r\n"
            connection.sendall(head.encode())
            self._sockets.append(connection)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        for connection in self._sockets:
            connection.close()

    def _read(self) -> None:
        with selectors.DefaultSelector() as selector:
            for connection in self._sockets:
                selector.register(connection, selectors.EVENT_READ)
            while not self._stopping.is_set():
                for key, _ in selector.select(0.2):
                    assert isinstance(key.fileobj, socket.socket)
                    if key.fileobj.recv(1 << 16):
                        self.chunks += 1
                    else:
                        selector.unregister(key.fileobj)


@contextmanager
def _scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    own(implementation, "console")
    names = [f"s{number}" for number in range(_SUBSCRIPTIONS)]
    with ExitStack() as stack:
        workers = []
        for mode in ("off", "write"):
            folder = lab.new_folder(f"console-{mode}")
            sink = stack.enter_context(SinkProcess(folder, dict.fromkeys(names, "")))
            installation = Installation(lab.kafka, folder, partitions=2)
            installation.write([Wanted(name, sink.url(name), "unordered") for name in names])
            worker = stack.enter_context(installation.worker(env={"PENSTOCK_CONSOLE": mode}))
            worker.wait_ready()
            installation.wait_subscribers(worker, len(names))
            stack.enter_context(
                LoadProcess(folder, installation.url(worker), events=10_000_000, rate=_RATE, keys=_SUBSCRIPTIONS)
            )
            workers.append((installation, worker))
        (_, without), (installation, with_console) = workers
        pages = [f"/subscription/{NAMESPACE}/{name}" for name in names[:8]]
        pages += [f"/channel/{NAMESPACE}/{installation.resources.channel}"] * 2 + ["/"] * 10

        def once() -> Values:
            rest = _more(lab, with_console, without)
            with Tabs(with_console.admin_port, pages) as tabs:
                looked_at = _more(lab, with_console, without)
                with Tabs(with_console.admin_port, ["/map"]):
                    with_map = _more(lab, with_console, without)
            assert tabs.chunks >= 2 * len(pages), "the pages did not change"
            return {
                IDLE: rest[0],
                IDLE_MEMORY: rest[1],
                TABS: looked_at[0] - rest[0],
                TABS_MEMORY: looked_at[1] - rest[1],
                MAP: with_map[0] - looked_at[0],
                MAP_MEMORY: with_map[1] - looked_at[1],
            }

        yield once


def _more(lab: Lab, worker: Worker, other: Worker) -> tuple[float, float]:
    """Returns how much more of a core, and how many more MB, a worker uses than another in the same seconds, after a
    moment for what is new."""
    time.sleep(lab.seconds(_SAMPLE_S / 4))
    before_s, begun_s = worker.cpu_s() - other.cpu_s(), time.monotonic()
    time.sleep(lab.seconds(_SAMPLE_S))
    more_s = worker.cpu_s() - other.cpu_s() - before_s
    return more_s / (time.monotonic() - begun_s), (worker.rss_bytes() - other.rss_bytes()) / 1e6


MEASURES = (
    Measure(
        "console",
        "the console of a worker, with and without open pages",
        (IDLE, IDLE_MEMORY, TABS, TABS_MEMORY, MAP, MAP_MEMORY),
        _scene,
        once=True,
    ),
)
