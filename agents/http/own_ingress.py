"""Decides which requests carry the installation's own bearer token: those to its own ingress, and no others.

What counts is the origin (scheme, host and port) of PENSTOCK_INGRESS_URL, which operators set. Host names of channels
do not count: who writes a resource or a Service in a namespace chooses them. A pool asks once, when it is made;
dispatchers hear of a change of the token.
"""

from __future__ import annotations

from agents.followed import Followed
from agents.http.endpoint import Endpoint, read_endpoint


class OwnIngress(Followed):
    """The origin, and the token as it is now. Event loop only."""

    __slots__ = ("_origin", "authorization")

    def __init__(self, url: str) -> None:
        """Without a token yet. Raises BadEndpoint."""
        super().__init__()
        self._origin = _origin(read_endpoint(url))
        self.authorization: str | None = None  #: the value of the Authorization header

    def has(self, endpoint: Endpoint) -> bool:
        """Returns whether requests to `endpoint` go to this ingress."""
        return _origin(endpoint) == self._origin

    def use(self, token: str) -> None:
        """Have this token sent from the next attempt on."""
        authorization = f"Bearer {token}" if token else None
        if authorization != self.authorization:
            self.authorization = authorization
            self._has_changed()


def _origin(endpoint: Endpoint) -> tuple[bool, str, int]:
    return endpoint.tls, endpoint.host, endpoint.port
