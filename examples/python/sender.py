"""Sends one order to a channel, and sends it again until it is stored.

    python sender.py http://localhost:8080/channels/default/quickstart

It needs `pip install penstock`.
"""

from __future__ import annotations

import sys

from penstock import Client, NotStoredError, event


def main() -> int:
    # Events of one customer stay in order.
    order = event(
        {"customer": "customer-7", "amount": 12.5}, type="order.placed", source="/shop", partitionkey="customer-7"
    )
    with Client(sys.argv[1]) as client:
        try:
            stored = client.send(order)
        except NotStoredError as problem:
            print(problem, file=sys.stderr)
            return 1
    print(f"{stored.id} stored, {stored.tries} tries" if stored.tries > 1 else f"{stored.id} stored")
    return 0


if __name__ == "__main__":
    sys.exit(main())
