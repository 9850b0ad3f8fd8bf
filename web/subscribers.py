"""`GET /subscribers/<namespace>/<channel>`: the duck type's list of subscriber statuses, for the whole system.

Refuses to work out what is ready: `tables/status` does, and is handed in as a function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from faust.web import View

from knative.contract import SubscriberStatus
from web.routing import ContractView

PATH = "/subscribers/{namespace}/{channel}"
#: (namespace, channel) -> its rows; None: there is no such channel.
Statuses = Callable[[str, str], Sequence[SubscriberStatus] | None]


def to_row(status: SubscriberStatus) -> dict[str, Any]:
    """One row as the API writes it."""
    return {
        "uid": status.uid,
        "observedGeneration": status.observed_generation,
        "ready": status.ready,
        "message": status.message,
    }


class SubscribersView(View):
    """Bound by `register`."""

    contract: ContractView
    statuses: Statuses
    retry_after_s: int

    async def get(self, request: Any, namespace: str, channel: str) -> Any:
        """200 with the rows, 404 for a channel the contract does not have, 503 before it was read."""
        if not self.contract.loaded:
            headers = {"retry-after": str(self.retry_after_s)}
            return self.json({"error": "the list of channels is not read yet"}, status=503, headers=headers)
        rows = type(self).statuses(namespace, channel)
        if rows is None:
            return self.json({"error": f"no channel {namespace}/{channel}"}, status=404)
        return self.json({"subscribers": [to_row(row) for row in rows]})


def register(app: Any, contract: ContractView, statuses: Statuses, retry_after_s: int = 1) -> None:
    """Serve the view on a Faust app."""
    bound = {"contract": contract, "statuses": staticmethod(statuses), "retry_after_s": retry_after_s}
    app.page(PATH, name="subscribers")(type("BoundSubscribersView", (SubscribersView,), bound))
