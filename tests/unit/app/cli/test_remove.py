"""`penstock remove`: what must be removed together."""

from __future__ import annotations

import pytest

from app.cli.remove import _check_readers
from app.operations.contract_snapshot import Contract
from knative.contract.records import TRIGGER, Subscription
from knative.delivery.policy import Addressable
from knative.errors import PenstockError


def test_channel_and_broker_are_not_removed_without_what_reads_from_them() -> None:
    kinds = {"c": "Subscription", "b": TRIGGER}
    readers = tuple(
        Subscription(
            f"u-{uid}", 1, "ns", "audit", uid, "orders", "t", "t.dlq", 1, "g", Addressable("http://h/"), kind=kind
        )
        for uid, kind in kinds.items()
    )
    names = {"c": "KafkaChannel/ns/orders", "b": "Broker/ns/orders"}
    with pytest.raises(PenstockError) as raised:
        _check_readers(Contract((), readers, ()), names)
    assert raised.value.what == (
        "Broker/ns/orders, KafkaChannel/ns/orders cannot be removed while something reads from there: "
        "Subscription/ns/audit, Trigger/ns/audit."
    )
    assert raised.value.hint == "Remove these too: add Subscription/ns/audit Trigger/ns/audit."
    _check_readers(Contract((), readers, ()), {**names, "u-c": readers[0].title, "u-b": readers[1].title})
