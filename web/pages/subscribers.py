"""`GET /subscribers/<namespace>/<channel>`: the duck type's list of subscriber statuses, for the whole system.

With `?wide` each row also has delivery statistics (`web/pages/subscriber_details`). `tables` computes both; the view
gets them as functions. `<channel>` is a KafkaChannel or a Broker; `broker:<name>` is the Broker if both have the name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from faust.web import View

from knative.contract.records import SubscriberStatus
from tables.subscriber_details import SubscriberDetails
from web.pages.subscriber_details import to_wide_row

PATH = "/subscribers/{namespace}/{channel}"
#: (namespace, channel) -> its rows; None if the channel does not exist.
Statuses = Callable[[str, str], Sequence[SubscriberStatus] | None]
Details = Callable[[str, str], Sequence[SubscriberDetails] | None]


class ContractView(Protocol):
    """The part of the contract that this page needs (`tables/contract_table`)."""

    @property
    def loaded(self) -> bool:
        """Whether the contract was read to its end once."""


def to_row(status: SubscriberStatus) -> dict[str, Any]:
    """The JSON of one row."""
    return {
        "uid": status.uid,
        "observedGeneration": status.observed_generation,
        "ready": status.ready,
        "message": status.message,
    }


class SubscribersView(View):
    """`register` binds it to its sources."""

    contract: ContractView
    statuses: Statuses
    details: Details
    retry_after_s: int

    async def get(self, request: Any, namespace: str, channel: str) -> Any:
        """200 with the rows, 404 for a channel that is not in the contract, 503 before the contract was read."""
        if not self.contract.loaded:
            headers = {"retry-after": str(self.retry_after_s)}
            return self.json({"error": "the list of channels has not been read yet"}, status=503, headers=headers)
        rows = self._wide(namespace, channel) if "wide" in request.query else self._rows(namespace, channel)
        if rows is None:
            return self.json({"error": f"there is no channel {namespace}/{channel}"}, status=404)
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
