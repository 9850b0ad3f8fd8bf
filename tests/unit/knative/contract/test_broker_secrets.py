"""References of Secrets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.contract.broker_secrets import INVALID, SecretProblem, is_reference
from knative.contract.codec import record_of_worker, status_of
from knative.contract.features import needs
from knative.contract.records import WorkerStatus
from tests.unit.knative.contract.test_codec import CHANNEL, SUBSCRIPTION


@pytest.mark.parametrize("text", ["shop/kafka", "a/b", "shop-1/kafka.credentials.v2", f"{'n' * 63}/{'s' * 63}.x"])
def test_reference_is_a_namespace_and_a_name(text: str) -> None:
    assert is_reference(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "/", "shop", "shop/", "/kafka", "shop/kafka/", "shop/kafka/user", "Shop/kafka", "shop/Kafka"),
        *("shop/..", "../kafka", "shop/.kafka", "shop/kafka..x", "shop/-k", "shop/k-", "sh.op/kafka", "shop/kafka\n"),
        *(f"{'n' * 64}/kafka", f"shop/{'.'.join(['s' * 63] * 4)}", "shop/kåfka", "shop/kafka\x00"),
    ],
)
def test_what_is_not_a_reference(text: str) -> None:
    assert not is_reference(text)


@given(st.text(alphabet="ab./-\\~", max_size=12))
def test_no_reference_leads_elsewhere(text: str) -> None:
    if is_reference(text):
        assert len(text.split("/")) == 2
        assert not any(part in ("", ".", "..") for part in text.split("/"))


def test_records_with_a_secret_need_the_feature() -> None:
    for entry in (CHANNEL, SUBSCRIPTION):
        assert "kafka-secret" not in needs(entry)
        assert "kafka-secret" in needs(replace(entry, secret="shop/kafka"))


def test_worker_reports_the_secrets_that_it_cannot_use() -> None:
    status = WorkerStatus("w", 1.0, "all", secrets={"shop/kafka": SecretProblem(INVALID, "wrong")})
    assert status_of(record_of_worker(status)) == status
    assert "kafka_secrets" not in record_of_worker(replace(status, secrets={}))
