"""A person's browser without scripts, for the console of a real worker: pages as text, forms with their token."""

from __future__ import annotations

import http.client
import re
from collections.abc import Mapping
from html import unescape
from urllib.parse import urlencode

LIMIT_S = 60.0
_TAG = re.compile(r"<[^>]*>")
_TOKEN = re.compile(r'name="form_token" value="([^"]+)"')


def words(text: str) -> str:
    """What a person reads of a page."""
    return " ".join(unescape(_TAG.sub(" ", text)).split())


class ConsoleClient:
    """`port`: the admin port of a worker on this machine."""

    def __init__(self, port: int) -> None:
        self._host = f"127.0.0.1:{port}"

    def page(self, path: str) -> str:
        """The HTML of a page that is there."""
        status, _, text = self._ask("GET", path)
        assert status == 200, f"{path}: {status} {words(text)}"
        return text

    def words(self, path: str) -> str:
        """What a person reads there."""
        return words(self.page(path))

    def post(self, path: str, form: Mapping[str, str]) -> tuple[int, str]:
        """Send a form of this page: the status, and where it leads to or what the answer says."""
        token = _TOKEN.search(self.page(path))
        assert token is not None, f"{path} has no form"
        body = urlencode({"form_token": token[1], **form})
        status, location, text = self._ask("POST", path, body)
        return status, location or words(text)

    def _ask(self, method: str, path: str, body: str | None = None) -> tuple[int, str, str]:
        connection = http.client.HTTPConnection(self._host, timeout=LIMIT_S)
        headers = {"Origin": f"http://{self._host}", "Content-Type": "application/x-www-form-urlencoded"}
        try:
            connection.request(method, path, body, headers if body is not None else {})
            answer = connection.getresponse()
            return answer.status, answer.getheader("Location") or "", answer.read().decode()
        finally:
            connection.close()
