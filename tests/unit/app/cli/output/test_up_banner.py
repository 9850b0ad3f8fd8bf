"""What `penstock up` says when everything runs: one command to try, with the ports and channels of this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.output.up_banner import banner
from app.local.stack import StackConfig
from web.console.safety import Mode

_REPOSITORY = Path(__file__).parents[5]
_CHANNEL = "apiVersion: messaging.knative.dev/v1beta1\nkind: KafkaChannel\nmetadata: {name: orders, namespace: shop}\n"


def _commands(folder: Path) -> list[str]:
    config = StackConfig(home=folder, resources=folder, jars_root=folder)
    return [line.strip() for line in banner(config, "127.0.0.1:9092", ".venv/bin/penstock") if "penstock" in line]


def test_channel_of_ones_own_is_in_the_command(tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(_CHANNEL)
    assert _commands(tmp_path) == [".venv/bin/penstock send --channel shop/orders"]


@pytest.mark.parametrize(
    ("example", "command"),
    [("quickstart", ".venv/bin/penstock send"), ("broker", ".venv/bin/penstock send --broker default/shop")],
)
def test_each_example_has_one_command(example: str, command: str) -> None:
    assert _commands(_REPOSITORY / "examples" / example) == [command]


def test_directory_without_channels_has_none(tmp_path: Path) -> None:
    (line,) = banner(StackConfig(home=tmp_path, resources=tmp_path, jars_root=tmp_path), "127.0.0.1:9092")
    assert line == f"There is no channel or broker in {tmp_path} yet. Files that you add are served within 2 s."


def test_other_ports_are_for_all_commands(tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(_CHANNEL)
    config = StackConfig(home=tmp_path, resources=tmp_path, jars_root=tmp_path, http_port=8088)
    assert "  export PENSTOCK_KAFKA=127.0.0.1:9093 PENSTOCK_HTTP_PORT=8088" in banner(config, "127.0.0.1:9093")


@pytest.mark.parametrize(("mode", "port", "ends"), [("write", 8081, True), ("off", 8081, False), ("write", 0, False)])
def test_banner_ends_with_the_address_of_the_console(mode: str, port: int, ends: bool, tmp_path: Path) -> None:
    for content in ("", _CHANNEL):
        (tmp_path / "orders.yaml").write_text(content)
        config = StackConfig(home=tmp_path, resources=tmp_path, jars_root=tmp_path, admin_port=port, console=Mode(mode))
        assert (banner(config, "127.0.0.1:9092")[-1] == f"  http://localhost:{port}") is ends
