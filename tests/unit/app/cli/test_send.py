"""`penstock send`: content types are guessed, and the error for an unknown channel lists the known ones."""

from __future__ import annotations

import pytest

from app.cli.send import guess_content_type, unknown_channel


@pytest.mark.parametrize(
    ("known", "says"),
    [
        (["a/one", "a/two"], "h:1 does not serve a channel a/x; known: a/one, a/two."),
        ([], "known: none."),
        (["a/x"], "h:1 does not serve a channel a/x yet"),
        (None, "`penstock status` lists the channels."),
    ],
)
def test_an_unknown_channel(known: list[str] | None, says: str) -> None:
    assert says in str(unknown_channel("a/x", "h:1", known))


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b'{"a": 1}', "application/json"), (b"hello", "text/plain"), (b"\xff\x00", "application/octet-stream")],
)
def test_content_types_are_guessed(body: bytes, kind: str) -> None:
    assert guess_content_type(body) == kind
