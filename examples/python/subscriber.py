"""Takes events that Penstock delivers, and prints each of them once.

    python subscriber.py 8090

It needs `pip install penstock`.
"""

from __future__ import annotations

import sys

from aiohttp import web
from cloudevents.core.base import BaseCloudEvent

from penstock import Subscriber


def handle(event: BaseCloudEvent) -> None:
    """Your work. An exception says: try again; `penstock.Reject` says: never again."""
    print(event.get_type(), event.get_id(), event.get_data(), flush=True)


def main() -> None:
    port = int(sys.argv[1])
    # It remembers what was handled, because an event can come twice. In earnest that is a table of the database that
    # `handle` writes to, in the same transaction: an event can also come again after a restart.
    subscriber = Subscriber(handle, remember=10_000)
    app = web.Application()
    app.router.add_post("/", subscriber.aiohttp)
    web.run_app(app, host="127.0.0.1", port=port, print=lambda _: print(f"listening on port {port}", flush=True))


if __name__ == "__main__":
    main()
