"""`GET /subscribers/<namespace>/<channel>`: the duck type's list of subscriber statuses, for the whole system.

At the admin port `?wide` adds delivery statistics to each row (`web/pages/subscriber_details`). They name subscribers'
URLs, so the port that senders use does not have them. `tables` computes both; the pages get them as functions.
`<channel>` is a KafkaChannel or a Broker; `broker:<name>` is the Broker if both have the name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from faust.web import View

from knative.contract.records import SubscriberStatus
from tables.subscriber_details import SubscriberDetails
from web.pages.subscriber_details import to_wide_row

PATH = "/subscribers/{namespace}/{channel}"
ELSEWHERE = "?wide is available at the admin port only (PENSTOCK_ADMIN_PORT)"
#: (namespace, channel) -> its rows; None if the channel does not exist.
Details = Callable[[str, str], Sequence[SubscriberDetails] | None]

_RETRY_AFTER = {"retry-after": "1"}


class ContractView(Protocol):
    """The part of the contract that this page needs (`tables/contract_table`)."""

    @property
    def loaded(self) -> bool:
        """Whether the contract was read to its end once."""


class Answer(NamedTuple):
    """What the page answers, for any server."""

    status: int
    body: dict[str, Any]
    headers: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class SubscribersPage:
    """The page at both ports."""

    contract: ContractView
    details: Details

    def answer(self, namespace: str, channel: str, *, wide: bool) -> Answer:
        """Answers 200 with the rows, 404 for a channel that is not in the contract, 503 before the contract is read."""
        if not self.contract.loaded:
            return Answer(503, {"error": "the list of channels has not been read yet"}, _RETRY_AFTER)
        subscribers = self.details(namespace, channel)
        if subscribers is None:
            return Answer(404, {"error": f"there is no channel {namespace}/{channel}"})
        rows = [to_row(details.status) | (to_wide_row(details) if wide else {}) for details in subscribers]
        return Answer(200, {"subscribers": rows})


def to_row(status: SubscriberStatus) -> dict[str, Any]:
    """Returns the JSON of one row."""
    return {
        "uid": status.uid,
        "observedGeneration": status.observed_generation,
        "ready": status.ready,
        "message": status.message,
    }


class SubscribersView(View):
    """The page on a Faust app; `register` binds it."""

    page: SubscribersPage

    async def get(self, request: Any, namespace: str, channel: str) -> Any:
        """Returns the answer of the page, without statistics."""
        if "wide" in request.query:
            return self.json({"error": ELSEWHERE}, status=404)
        status, body, headers = self.page.answer(namespace, channel, wide=False)
        return self.json(body, status=status, headers=dict(headers))


def register(app: Any, page: SubscribersPage) -> None:
    """Serve the view on a Faust app."""
    app.page(PATH, name="subscribers")(type("BoundSubscribersView", (SubscribersView,), {"page": page}))
