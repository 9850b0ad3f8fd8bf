"""An OAuth 2.0 server on loopback that gives tokens without a signature to one client (RFC 6749, section 4.4)."""

from __future__ import annotations

import base64
import json
import time
from urllib.parse import parse_qs

from tests.support.scripted_server import Step
from tests.support.subscriber import Request, ScriptedSubscriber, says

_LIFE_S = 3600


class TokenServer(ScriptedSubscriber):
    """Gives tokens at its endpoint; elsewhere it gives an answer without one."""

    def __init__(self, client: str, secret: str) -> None:
        super().__init__()
        self._client, self._basic = client, "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode()

    @property
    def endpoint(self) -> str:
        """The URL that tokens come from."""
        return self.url("/token")

    def take(self, request: Request) -> Step:
        form = parse_qs(request.body.decode())
        good = request.header("authorization") == self._basic and form["grant_type"] == ["client_credentials"]
        token = {"access_token": _token(self._client), "token_type": "Bearer", "expires_in": _LIFE_S}
        body = token if request.target == "/token" else {}
        text = json.dumps(body if good else {"error": "invalid_client"})
        return says(200 if good else 401, text.encode(), "content-type: application/json")


def _token(subject: str) -> str:
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + _LIFE_S, "scope": "kafka"})
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*texts, ""])
