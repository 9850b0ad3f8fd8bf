"""Certificates of a Kafka secret, as they were when they were read."""

from __future__ import annotations

import shutil
from pathlib import Path

from confluent_kafka import Producer

from tables.kafka.connection.probe import tls_context
from tables.kafka.connection.secret import read_keys, secret_settings
from tests.support.certificates import Authority
from tests.support.secured_kafka import write_secret


def test_clients_are_made_of_them_when_the_folder_is_gone(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    both = authority.certificate.read_text() + Authority(tmp_path / "other").certificate.read_text()
    client = authority.sign("client")
    folder = write_secret(tmp_path / "secret", ca_crt=both, user_crt=client.certificate, user_key=client.key)
    settings = secret_settings(read_keys(folder), folder, in_memory=True)
    shutil.rmtree(folder)
    assert len(tls_context(settings).get_ca_certs()) == 2
    Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, **settings})  # raises if it cannot read one
