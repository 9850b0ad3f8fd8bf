"""What `penstock up` says when everything runs: what to try next, with the ports and channels of this one."""

from __future__ import annotations

from pathlib import Path

from app.cli.output.up_banner import banner, curl
from app.local.stack import StackConfig

_CHANNEL = "apiVersion: messaging.knative.dev/v1beta1\nkind: KafkaChannel\nmetadata: {name: orders, namespace: shop}\n"


def test_what_to_try_fits_resources_and_ports_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(_CHANNEL)
    config = StackConfig(home=tmp_path, resources=tmp_path, jars_root=tmp_path, http_port=8088)
    lines = banner(config, "127.0.0.1:9093", [], 3.2, ".venv/bin/penstock")
    assert ".venv/bin/penstock send --count 20 --key customer-7 --channel shop/orders --server localhost:8088" in lines
    looks = [line for line in lines if ".venv/bin/penstock receive" in line]
    assert len(looks) == 2
    assert all(line.endswith(" --channel shop/orders --kafka 127.0.0.1:9093") for line in looks)
    assert not any("picky" in line for line in lines)


_REPOSITORY = Path(__file__).parents[5]
_QUICKSTART = _REPOSITORY / "examples" / "quickstart"


def test_up_says_what_to_try(tmp_path: Path) -> None:
    config = StackConfig(home=tmp_path, resources=_QUICKSTART, jars_root=tmp_path)
    lines = banner(config, "127.0.0.1:9092", [tmp_path / "worker.log", None], 3.2)
    host = "my-kafkachannel-service.mynamespace.svc.cluster.local"
    assert curl("http://localhost:8080/", host) in lines
    assert curl("http://localhost:8080/channels/default/quickstart") in lines
    assert any("localhost:8081/metrics" in line for line in lines)
    assert any("--dlq" in line for line in lines)


def test_a_broker_has_an_address_too(tmp_path: Path) -> None:
    config = StackConfig(home=tmp_path, resources=_REPOSITORY / "examples" / "broker", jars_root=tmp_path)
    lines = banner(config, "127.0.0.1:9092", [], 3.2)
    assert curl("http://localhost:8080/default/shop") in lines
    assert "penstock send --count 20 --key customer-7 --broker default/shop" in lines


def test_a_channel_and_a_broker_of_one_name_are_told_apart(tmp_path: Path) -> None:
    annotation = "annotations: {eventing.knative.dev/broker.class: Kafka}"
    metadata = f"metadata: {{name: orders, namespace: shop, {annotation}}}"
    broker = f"apiVersion: eventing.knative.dev/v1\nkind: Broker\n{metadata}\n"
    (tmp_path / "orders.yaml").write_text(f"{_CHANNEL}---\n{broker}")
    lines = banner(StackConfig(home=tmp_path, resources=tmp_path, jars_root=tmp_path), "127.0.0.1:9092", [], 3.2)
    assert any("receive --last 10 --channel KafkaChannel/shop/orders" in line for line in lines)
    assert any("--dlq --from-beginning --channel KafkaChannel/shop/orders" in line for line in lines)
    assert any(line.endswith("/subscribers/shop/orders") for line in lines)
