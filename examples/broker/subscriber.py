"""The subscribers of the example: each prints what it gets, and two of them reply with an event of the next type.

    python subscriber.py 8095

It needs `pip install "cloudevents>=2.2"`, and nothing else.
"""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.http import HTTPMessage, from_http_event, to_binary_event
from cloudevents.core.exceptions import BaseCloudEventException
from cloudevents.core.v1.event import CloudEvent

#: Path -> type of the reply.
REPLIES = {"/payment": "order.paid", "/shipping": "order.shipped"}


def reply_to(event: BaseCloudEvent, path: str) -> CloudEvent | None:
    """Returns the answer, if this subscriber has one. Its id follows from that of the event: a delivery that is
    repeated has the same answer, so that subscribers recognize it."""
    if path not in REPLIES:
        return None
    attributes = {
        **event.get_attributes(),
        "id": f"{event.get_id()}{path}",
        "source": f"/shop{path}",
        "type": REPLIES[path],
    }
    return CloudEvent(attributes, event.get_data())


class Subscriber(BaseHTTPRequestHandler):
    """Answers each delivery: 200 with an event is a reply, another 2xx is done, and 500 is a failure."""

    protocol_version = "HTTP/1.1"  # Penstock keeps its connections open

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            event = from_http_event(HTTPMessage(dict(self.headers.items()), body))
        except (BaseCloudEventException, ValueError) as problem:
            return self._answer(400, {"content-type": "text/plain; charset=utf-8"}, str(problem).encode())
        if self.path == "/failing":
            print(f"{self.path:10} rejects {event.get_type()} {event.get_id()}", flush=True)
            return self._answer(500, {"content-type": "text/plain"}, b"this subscriber rejects everything\n")
        reply = reply_to(event, self.path)
        then = f" -> {reply.get_type()}" if reply else ""
        print(f"{self.path:10} got {event.get_type()} {event.get_id()}{then}", flush=True)
        if reply is None:
            return self._answer(204, {}, b"")
        message = to_binary_event(reply)
        return self._answer(200, message.headers, message.body)

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

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
