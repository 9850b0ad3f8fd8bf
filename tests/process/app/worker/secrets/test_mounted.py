"""A mounted Secret that is replaced between two of its files: what is read of it is of one moment."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import pytest

from app.worker.secrets.tls import ServerTls
from knative.errors import UsageError
from tables.file_signatures import read_together
from tables.kafka.connection.secret import read_keys
from tests.support.certificates import Authority
from tests.support.secured_kafka import MountedSecret, write_secret

Plant = Callable[[str, Callable[[], None]], None]  #: name of a file, and what happens when it was read


def _mounted(folder: Path, *versions: Path) -> tuple[Path, Callable[[], None]]:
    """A folder with the first version, and what has it show the next one, if there is one."""
    secret, later = MountedSecret(folder / "mounted"), iter(versions)
    secret.folder.mkdir()

    def replace() -> None:
        for version in later:
            secret.mount(version)
            return

    replace()
    return secret.folder, replace


@pytest.fixture
def after_reading(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Has something happen whenever a file of this name was read."""

    def plant(name: str, happens: Callable[[], None]) -> None:
        def then(really: Callable[[Path], Any], path: Path) -> Any:
            content = really(path)
            if path.name == name:
                happens()
            return content

        for method in ("read_text", "read_bytes"):
            monkeypatch.setattr(Path, method, partialmethod(partial(then, getattr(Path, method))))

    return plant


def test_user_and_password_belong_together(tmp_path: Path, after_reading: Plant) -> None:
    first = write_secret(tmp_path / "1", protocol="SASL_PLAINTEXT", user="ann", password="hers")
    folder, replace = _mounted(tmp_path, first, write_secret(tmp_path / "2", user="bob", password="his"))
    after_reading("user", replace)
    assert read_keys(folder) == {"user": "bob", "password": "his"}


def test_key_that_goes_is_not_one_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write_secret(tmp_path / "1", user="ann", password="hers", protocol="SASL_PLAINTEXT")
    folder, replace = _mounted(tmp_path, first, write_secret(tmp_path / "2", user="bob", password="his"))
    is_file = Path.is_file

    def then_goes(path: Path) -> bool:
        is_there = is_file(path)
        if path.name == "protocol":
            replace()
        return is_there

    monkeypatch.setattr(Path, "is_file", then_goes)
    assert read_keys(folder) == {"user": "bob", "password": "his"}


def test_certificate_and_key_of_the_ingress_belong_together(tmp_path: Path, after_reading: Plant) -> None:
    authority = Authority(tmp_path / "ca")
    signed = [authority.sign(f"server-{number}") for number in range(2)]
    versions = [
        write_secret(tmp_path / f"{number}", tls_crt=pair.certificate, tls_key=pair.key)
        for number, pair in enumerate(signed)
    ]
    folder, replace = _mounted(tmp_path, *versions)
    after_reading("tls.key", replace)
    second = signed[1].key.read_bytes() + b"\n" + signed[1].certificate.read_bytes()
    assert ServerTls(folder / "tls.crt", folder / "tls.key").read() == second


def test_what_is_wrong_with_files_that_stay_is_said_at_once(tmp_path: Path) -> None:
    path, reads = tmp_path / "file", list[int]()
    path.write_text("x")

    def read() -> None:
        reads.append(1)
        raise UsageError("It is not valid.")

    with pytest.raises(UsageError, match="not valid"):
        read_together([path], read)
    assert len(reads) == 1


def test_files_that_never_stay_are_used_as_they_are(tmp_path: Path) -> None:
    """It does not hang; whoever watches them reads them again."""
    path, reads = tmp_path / "file", list[int]()

    def read() -> str:
        reads.append(1)
        path.write_text("x" * len(reads))
        return path.read_text()

    assert read_together([path], read) == "x" * len(reads)
    assert len(reads) == 5
