"""A subscriber for trying things out: it prints each event that it gets; `/picky` rejects every tenth.

    POST /good    200 always
    POST /picky   500 for every tenth event (by order of first arrival), at each attempt; else 200

With `--ledger FILE` it writes one JSON line per attempt: subscription, status, time in ns, attributes. It is neither
fast nor complete: for a real subscriber use a CloudEvents SDK.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import unquote

import orjson
from aiohttp import web

from app.local.kafka.ports import LOOPBACK
from app.local.packaged import SUBSCRIBER_PORT
from knative.cloudevents.http_binding import is_raw_uri
from knative.errors import SHOWN_CHARS


class Refusals:
    """Decides which events `/picky` rejects: every `every`th new one, with the same answer at each attempt."""

    def __init__(self, every: int = 10, remembered: int = 50_000) -> None:
        self._every = every
        self._remembered = remembered
        self._seen = 0
        self._verdicts: dict[tuple[str, str], bool] = {}

    def refuses(self, source: str, event_id: str) -> bool:
        """Returns whether to reject this event. Remembers only the latest events, so that memory stays bounded."""
        key = (source, event_id)
        if key not in self._verdicts:
            self._seen += 1
            if len(self._verdicts) >= self._remembered:
                del self._verdicts[next(iter(self._verdicts))]
            self._verdicts[key] = self._seen % self._every == 0
        return self._verdicts[key]


def attributes_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Returns CloudEvents attributes of a binary-mode request."""
    attributes = {name.lower()[3:]: value for name, value in headers.items() if name.lower().startswith("ce-")}
    for name, value in attributes.items():
        if name not in ("source", "dataschema") or not is_raw_uri(value.encode("utf-8", "surrogateescape")):
            attributes[name] = unquote(value)
    content_type = headers.get("Content-Type")
    return attributes if content_type is None else {**attributes, "datacontenttype": content_type}


def line_of(subscription: str, status: int, attributes: Mapping[str, str], body: bytes) -> str:
    """Returns the line to print for one attempt."""
    who = " ".join(f"{name}={attributes.get(name, '?')}" for name in ("id", "type", "source"))
    data = " ".join(body[: 4 * SHOWN_CHARS].decode("utf-8", "replace").split())
    data = data if len(data) <= SHOWN_CHARS else f"{data[:SHOWN_CHARS]}... ({len(body)} bytes)"
    verdict = "got    " if status == 200 else f"rejected with {status}"
    line = f"{subscription:5} {verdict} {who} {data}"
    return line if line.isprintable() else ascii(line)[1:-1]


def make_app(report: Callable[[str, int, Mapping[str, str], bytes], None]) -> web.Application:
    """Returns the HTTP application; `report(subscription, status, attributes, body)` is called for each attempt."""
    refusals = Refusals()

    async def receive(request: web.Request) -> web.Response:
        body = await request.read()
        attributes = attributes_of(request.headers)
        subscription = request.path.strip("/")
        refused = subscription == "picky" and refusals.refuses(attributes.get("source", ""), attributes.get("id", ""))
        status = 500 if refused else 200
        report(subscription, status, attributes, body)
        return web.Response(status=status, text="this subscriber rejects every tenth event\n" if refused else "")

    app = web.Application(client_max_size=256 * 1024 * 1024)
    app.router.add_post("/good", receive)
    app.router.add_post("/picky", receive)
    return app


async def serve(port: int, ledger: Path | None, quiet: bool) -> None:
    """Serve on loopback until SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    file = None if ledger is None else ledger.open("ab", buffering=0)

    def report(subscription: str, status: int, attributes: Mapping[str, str], body: bytes) -> None:
        if file is not None:
            fact = {"subscription": subscription, "status": status, "time_ns": time.time_ns(), "attributes": attributes}
            file.write(orjson.dumps(fact, option=orjson.OPT_APPEND_NEWLINE))
        if not quiet:
            print(line_of(subscription, status, attributes, body), flush=True)

    # Limits that fit all events that ingress accepts: percent-encoding makes an attribute up to three times as long.
    runner = web.AppRunner(make_app(report), access_log=None, max_headers=1_024, max_field_size=512 * 1024)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, port, shutdown_timeout=1.0).start()
        await stopped.wait()
    finally:
        await runner.cleanup()
        if file is not None:
            file.close()


def main() -> None:
    """Run `python -m app.local.sample_subscriber`."""
    parser = argparse.ArgumentParser(
        prog="python -m app.local.sample_subscriber",
        description="A subscriber that prints events: /good accepts all events, /picky rejects every tenth.",
        epilog="example: python -m app.local.sample_subscriber --port 8090",
    )
    parser.add_argument("--port", type=int, default=SUBSCRIBER_PORT)
    parser.add_argument("--ledger", type=Path, help="append one JSON line per attempt to this file")
    parser.add_argument("--quiet", action="store_true", help="print nothing")
    given = parser.parse_args()
    asyncio.run(serve(given.port, given.ledger, given.quiet))


if __name__ == "__main__":
    main()
