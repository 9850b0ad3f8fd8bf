"""`penstock send`: content types are guessed, and the error for an unknown channel lists the known ones."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.cli.send import unknown_channel
from knative.errors import UsageError


@pytest.mark.parametrize(
    ("channels", "brokers", "says"),
    [
        (["a/one", "a/two"], ["b/z"], "h:1 does not serve the channel a/x; known: a/one, a/two. Write --channel"),
        ([], [], "known: none."),
        (["a/x"], [], "h:1 does not serve the channel a/x yet"),
        ([], ["a/shop"], "the channel a/x; it has no channel, but the broker a/shop. Write --broker a/shop."),
        ([], ["a/b", "a/c"], "but the brokers a/b, a/c. Write --broker NAMESPACE/NAME."),
        (["a/one"], ["a/x"], "the channel a/x: a/x is a broker. Write --broker a/x."),
    ],
)
def test_error_of_an_unknown_channel_names_what_there_is(channels: list[str], brokers: list[str], says: str) -> None:
    assert says in str(unknown_channel("a/x", "h:1", {"channel": channels, "broker": brokers}))


def test_unknown_broker_that_is_a_channel() -> None:
    error = unknown_channel("a/x", "h:1", {"channel": ["a/x"], "broker": []}, "broker")
    assert str(error) == "h:1 does not serve the broker a/x: a/x is a channel. Write --channel a/x."


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--server", "localhost:abc", "--channel", "a/b"], "is not a valid URL: Port could not be cast"),
        (["--broker", "a/b", "--channel", "a/c"], "--channel and --broker cannot be combined."),
        (["--broker", "a/b", "--url", "http://h/"], "--broker and --url cannot be combined."),
        (["--server", "h:1", "--url", "http://h/"], "--server and --url cannot be combined."),
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
