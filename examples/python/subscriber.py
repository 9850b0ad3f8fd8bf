"""Takes events that Penstock delivers, and prints each of them once.

    python subscriber.py 8090

It needs `pip install "cloudevents>=2.2"`, and nothing else.
"""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from cloudevents.core.exceptions import BaseCloudEventException

#: Source and id of what was handled. In earnest this is a table of the database that `handle` writes to, in the same
#: transaction: an event can come twice, also after a restart.
handled: set[tuple[str, str]] = set()


def handle(event: BaseCloudEvent) -> None:
    """Your work."""
    print(event.get_type(), event.get_id(), event.get_data(), flush=True)


class Subscriber(BaseHTTPRequestHandler):
    """Answers each delivery: 2xx = done, 5xx or 429 = try again, another 4xx = never try again."""

    protocol_version = "HTTP/1.1"  # Penstock keeps its connections open

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            event = from_http_event(HTTPMessage(dict(self.headers.items()), body))
        except (BaseCloudEventException, ValueError) as problem:
            return self._answer(400, str(problem))
        key = (event.get_source(), event.get_id())
        if key not in handled:
            handle(event)
            handled.add(key)
        return self._answer(204)

    def _answer(self, status: int, text: str = "") -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """No line for each request."""


def main() -> None:
    port = int(sys.argv[1])
    with ThreadingHTTPServer(("127.0.0.1", port), Subscriber) as server:
        print(f"listening on port {server.server_port}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("stopped", flush=True)


if __name__ == "__main__":
    main()
