"""`penstock send`: content types are guessed, and the error for an unknown channel lists the known ones."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.cli.send import guess_content_type, unknown_channel
from knative.errors import UsageError


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


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--server", "localhost:abc", "--channel", "a/b"], "is not a valid URL: Port could not be cast"),
        (["--url", "http://[::1/x"], "is not a valid URL: Invalid IPv6 URL"),
        (["--url", "ftp://h/x"], "is not a valid URL."),
        (["--url", "http://someone:hidden@127.0.0.1:1/"], "has a user or a password"),
        (["--url", "http://127.0.0.1:1/", "-H", "Authorization: Bearer hidden\nx"], "does not allow"),
    ],
)
def test_what_cannot_be_sent_is_a_sentence_without_secrets(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(cli, ["send", *arguments])
    assert isinstance(done.exception, UsageError)
    assert says in str(done.exception)
    assert "hidden" not in str(done.exception) + done.output
