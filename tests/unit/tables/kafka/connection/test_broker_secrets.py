"""Which Secrets of Brokers are missing or not valid, and that every change of a folder is noticed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from knative.contract.broker_secrets import INVALID, NOT_FOUND
from tables.kafka.connection.broker_secrets import BrokerSecretFiles

REFERENCES = ("shop/one", "shop/two")


def _secret(folder: Path, **keys: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in keys.items():
        (folder / name).write_text(value)


def _reasons(files: BrokerSecretFiles, number: int = 2) -> dict[str, str]:
    problems = asyncio.run(files.problems(REFERENCES[:number]))
    return {reference: problem.reason for reference, problem in problems.items()}


def test_changed_folder_is_read_again(tmp_path: Path) -> None:
    files, folder = BrokerSecretFiles(tmp_path), tmp_path / "shop" / "one"
    assert _reasons(files) == {"shop/one": NOT_FOUND, "shop/two": NOT_FOUND}
    _secret(folder, protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", user="ann")
    assert _reasons(files) == {"shop/one": INVALID, "shop/two": NOT_FOUND}
    _secret(folder, password="secret")
    assert _reasons(files) == {"shop/two": NOT_FOUND}
    (folder / "user").unlink()
    assert _reasons(files, 1) == {"shop/one": INVALID}


def test_files_that_have_not_changed_are_not_read_again(tmp_path: Path) -> None:
    files, protocol = BrokerSecretFiles(tmp_path), tmp_path / "shop" / "one" / "protocol"
    _secret(protocol.parent, protocol="PLAINTEXT")
    assert _reasons(files, 1) == {}
    before = protocol.stat()
    protocol.write_text("PLAINTEXX")
    os.utime(protocol, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert _reasons(files, 1) == {}
    os.utime(protocol)
    assert _reasons(files, 1) == {"shop/one": INVALID}


def test_without_the_setting_nothing_is_looked_for() -> None:
    assert _reasons(BrokerSecretFiles(None)) == {}
