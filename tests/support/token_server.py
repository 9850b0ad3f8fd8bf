"""An OAuth 2.0 server on loopback that gives tokens without a signature to one client (RFC 6749, section 4.4)."""

from __future__ import annotations

import base64
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from tests.support.loopback_server import LoopbackServer

_LIFE_S = 3600


class TokenServer(LoopbackServer[ThreadingHTTPServer]):
    """Gives tokens. `refused` counts requests with other credentials."""

    def __init__(self, client: str, secret: str) -> None:
        self.given = self.refused = 0
        self._basic = "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode()
        super().__init__(ThreadingHTTPServer(("127.0.0.1", 0), self._handler(client)))

    @property
    def endpoint(self) -> str:
        """The URL that tokens come from."""
        return self.url("/token")

    def _handler(outer, client: str) -> type[BaseHTTPRequestHandler]:  # `self` is a request's here
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                good = self.headers["Authorization"] == outer._basic and form["grant_type"] == ["client_credentials"]
                outer.given += good
                outer.refused += not good
                token = {"access_token": _token(client), "token_type": "Bearer", "expires_in": _LIFE_S}
                body = token if self.path == "/token" else {}
                answer = json.dumps(body if good else {"error": "invalid_client"}).encode()
                self.send_response(200 if good else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Nothing on standard error."""

        return Handler


def _token(subject: str) -> str:
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + _LIFE_S, "scope": "kafka"})
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*texts, ""])
