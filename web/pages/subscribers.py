"""`GET /subscribers/<namespace>/<channel>`: the duck type's list of subscriber statuses, for the whole system.

With `?wide` each row also says how the subscription is doing: see `web/pages/subscriber_details`. Refuses to work out
what is ready and how it is doing: `tables` does, and is handed in as functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from faust.web import View

from knative.contract.records import SubscriberStatus
from tables.subscriber_details import SubscriberDetails
from web.ingress.channel_resolver import ContractView
from web.pages.subscriber_details import to_wide_row

PATH = "/subscribers/{namespace}/{channel}"
#: (namespace, channel) -> its rows; None: there is no such channel.
Statuses = Callable[[str, str], Sequence[SubscriberStatus] | None]
Details = Callable[[str, str], Sequence[SubscriberDetails] | None]


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
    details: Details
    retry_after_s: int

    async def get(self, request: Any, namespace: str, channel: str) -> Any:
        """200 with the rows, 404 for a channel the contract does not have, 503 before it was read."""
        if not self.contract.loaded:
            headers = {"retry-after": str(self.retry_after_s)}
            return self.json({"error": "the list of channels is not read yet"}, status=503, headers=headers)
        rows = self._wide(namespace, channel) if "wide" in request.query else self._rows(namespace, channel)
        if rows is None:
            return self.json({"error": f"no channel {namespace}/{channel}"}, status=404)
        return self.json({"subscribers": rows})

    def _rows(self, namespace: str, channel: str) -> list[dict[str, Any]] | None:
        found = type(self).statuses(namespace, channel)
        return None if found is None else [to_row(row) for row in found]

    def _wide(self, namespace: str, channel: str) -> list[dict[str, Any]] | None:
        found = type(self).details(namespace, channel)
        return None if found is None else [{**to_row(row.status), **to_wide_row(row)} for row in found]


def register(app: Any, contract: ContractView, statuses: Statuses, details: Details, retry_after_s: int = 1) -> None:
    """Serve the view on a Faust app."""
    bound = {
        "contract": contract,
        "statuses": staticmethod(statuses),
        "details": staticmethod(details),
        "retry_after_s": retry_after_s,
    }
    app.page(PATH, name="subscribers")(type("BoundSubscribersView", (SubscribersView,), bound))
