"""Sends one order as a CloudEvent to a channel, and sends it again until it is stored.

    python sender.py http://localhost:8080/channels/default/quickstart

It needs `pip install "cloudevents>=2.2"`, and nothing else.
"""

from __future__ import annotations

import sys
import time
import urllib.error
import urllib.request
import uuid
from datetime import UTC, datetime

from cloudevents.core.bindings.http import to_binary_event
from cloudevents.core.v1.event import CloudEvent

TRIES = 5
TRY_AGAIN = (0, 408, 429, 500, 502, 503, 504)  #: 0 = no answer


def order_placed(customer: str, amount: float) -> CloudEvent:
    """The event. Its id stays the same however often it is sent, so that a subscriber can tell."""
    attributes = {
        "id": str(uuid.uuid4()),
        "source": "/shop",
        "type": "order.placed",
        "time": datetime.now(UTC),
        "datacontenttype": "application/json",
        "partitionkey": customer,  # events of one customer stay in order
    }
    return CloudEvent(attributes, {"customer": customer, "amount": amount})


def send(url: str, event: CloudEvent) -> int:
    """One POST: the status, or 0 without an answer. 202 says that Kafka has stored the event."""
    message = to_binary_event(event)
    request = urllib.request.Request(url, message.body, message.headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as answer:
        with answer:
            print(answer.read().decode("utf-8", "replace").strip(), file=sys.stderr)
        return answer.code
    except OSError:
        return 0


def main() -> int:
    url = sys.argv[1]
    event = order_placed("customer-7", 12.5)
    for attempt in range(TRIES):
        status = send(url, event)
        print(f"{event.get_id()} {status}")
        if status == 202:
            return 0
        if status not in TRY_AGAIN:  # the event or the address is wrong: it would be refused again
            return 1
        time.sleep(0.2 * 2**attempt)
    return 1


if __name__ == "__main__":
    sys.exit(main())
