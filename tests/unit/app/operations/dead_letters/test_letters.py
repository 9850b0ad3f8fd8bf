"""Dead letters: what they say, which a selection takes, how they group, and whose they are."""

from __future__ import annotations

import pytest

from app.cli.dlq.show import letter_json, letter_lines
from app.cli.output.records import printable
from app.operations.dead_letters.ledger import Ledger
from app.operations.dead_letters.letters import DeadLetter, Selection, group, owner
from app.operations.dead_letters.reader import read_ref
from knative.contract.records import Subscription
from knative.delivery.policy import Addressable
from knative.errors import UsageError
from tables.kafka.topic_reader import StoredRecord
from tests.unit.app.operations.dead_letters.samples import ORIGINAL, dead_letter


def test_letter_has_the_values_of_its_headers() -> None:
    letter = dead_letter()
    assert (letter.subscription, letter.subscription_uid, letter.reason) == ("ns/a", "u", "the answer was 503")
    assert (letter.ref, letter.event_id, letter.time_s, letter.answer) == ("t.dlq/2/0", "1", 5.0, b"busy")
    assert letter.original_headers() == list(ORIGINAL)
    assert read_ref(letter.ref) == ("t.dlq", 2, 0)


def test_letter_without_headers_of_penstock_belongs_to_nobody() -> None:
    """It is the smallest form, with junk in the place of base64."""
    bare = DeadLetter(StoredRecord("t.dlq", 0, 0, 0, None, (("ce_knativeerrordata", b"%%"),), None))
    assert (bare.subscription, bare.reason, bare.event_id, bare.answer) == ("", "", "", None)
    assert owner(bare, [_subscription("a")]) is None
    assert letter_lines(bare, Ledger({}))[1:] == ["  knativeerrordata: %%"]


def test_letter_of_another_program_shows_no_secret() -> None:
    """It has the whole URL of the subscriber, which stays in the record."""
    headers = (*ORIGINAL, ("CE_KnativeErrorDest", b"http://me:hunter2@x/p?hunter2"))
    letter = DeadLetter(StoredRecord("t.dlq", 0, 0, 0, None, headers, b"data"))
    assert letter.said["knativeerrordest"] == "http://x/p"
    assert "hunter2" not in f"{letter_lines(letter, Ledger({}))} {letter_json(letter, Ledger({}))}"
    assert letter.record.headers == headers


@pytest.mark.parametrize(
    ("selection", "taken"),
    [
        (Selection(), True),
        (Selection(subscription="ns/a"), True),
        (Selection(subscription="ns/b"), False),
        (Selection(subscription="a"), False),
        (Selection(reason="ANSWER was"), True),
        (Selection(reason="timeout"), False),
        (Selection(since_s=5.0), True),
        (Selection(since_s=5.001), False),
        (Selection(until_s=5.001), True),
        (Selection(until_s=5.0), False),
        (Selection("ns/a", "503", 4.0, 6.0), True),
        (Selection("ns/a", "500", 4.0, 6.0), False),
    ],
)
def test_selection_takes_the_letters_that_it_names(selection: Selection, taken: bool) -> None:
    assert selection.takes(dead_letter()) is taken


def test_letters_are_grouped_by_subscription_and_reason() -> None:
    letters = [
        (dead_letter("ns/b", "x", 9_000), False),
        (dead_letter("ns/a", "x", 3_000, topic="other.dlq"), True),
        (dead_letter("ns/a", "x", 1_000), False),
        (dead_letter("ns/a", "y", 2_000), True),
        (dead_letter("ns/a", "x", 2_000), True),
    ]
    counts = [
        (row.subscription, row.reason, row.count, row.redriven, row.oldest_s, row.newest_s) for row in group(letters)
    ]
    assert counts == [("ns/a", "x", 3, 2, 1.0, 3.0), ("ns/a", "y", 1, 1, 2.0, 2.0), ("ns/b", "x", 1, 0, 9.0, 9.0)]
    assert group(letters)[0].topics == {"t.dlq", "other.dlq"}
    assert group([]) == []


def _subscription(name: str, uid: str = "u", dlq_topic: str = "t.dlq") -> Subscription:
    return Subscription(uid, 1, "ns", name, "c", "ch", "t", dlq_topic, 1, "g", Addressable("http://x/"))


@pytest.mark.parametrize(
    ("subscriptions", "whose"),
    [
        ([], None),
        ([_subscription("a")], "u"),
        ([_subscription("renamed"), _subscription("a", "v")], "u"),  # the uid says it
        ([_subscription("a", "v")], "v"),  # created again under its name
        ([_subscription("a", "v", "elsewhere.dlq")], None),  # the same name at another channel
        ([_subscription("b", "v")], None),
    ],
)
def test_letter_belongs_to_its_subscription(subscriptions: list[Subscription], whose: str | None) -> None:
    subscription = owner(dead_letter(), subscriptions)
    assert (subscription.uid if subscription else None) == whose


@pytest.mark.parametrize("text", ["", "t", "t/1", "t/x/1", "t/1/-1", "/1/2", "t/1/²", "t/0/" + "9" * 5000])
def test_invalid_reference_to_a_letter_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="is not a valid reference to a letter"):
        read_ref(text)


def test_nothing_in_a_letter_drives_the_terminal() -> None:
    lines = letter_lines(dead_letter(reason="\x1b[2J", data=b"\x1b]0;x\x07\nsecond"), Ledger({}))
    assert all(line.isprintable() for line in lines)
    assert "    second" in lines
    assert printable(b"a\tb\xff\r\nc\x00") == "a\tb\\xff\nc\\x00"
