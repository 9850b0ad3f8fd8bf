"""The file of the own token: what is one, and that an error never shows what the file has."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.worker.secrets.own_token import read_own_token
from knative.errors import UsageError


@pytest.mark.parametrize("content", ["penstock_aZ09-_", "penstock_aZ09-_\n", " abc.~+/== \r\n"])
def test_token_is_read_without_white_space(content: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    token = read_own_token(path)
    assert token == content.strip()
    assert content.strip() not in repr(token)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"canary canary", "does not contain one bearer token"),
        (b"canary\r\nx-other: canary", "does not contain one bearer token"),
        (b"Bearer canary", "does not contain one bearer token"),
        (b"canary\x00", "does not contain one bearer token"),
        ("canary\u00e9".encode(), "does not contain one bearer token"),
        (b"canary" * 2000, "does not contain one bearer token"),
    ],
)
def test_what_is_not_a_token(content: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=f"PENSTOCK_OWN_TOKEN names, {why}") as caught:
        read_own_token(path)
    assert "canary" not in f"{caught.value} {caught.value.hint}"


def test_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_own_token(tmp_path / "none")
