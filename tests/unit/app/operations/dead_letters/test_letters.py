"""Dead letters: what they say, which are meant, how they group, whose they are, how fast they go, what it came to."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.dlq.show import letter_json, letter_lines
from app.cli.output.records import printable
from app.operations.dead_letters.editing import edit, read_edited
from app.operations.dead_letters.ledger import Ledger, LedgerEntry, decode, encode
from app.operations.dead_letters.letters import DeadLetter, Selection, group, owner
from app.operations.dead_letters.rate import RateLimiter, read_rate
from app.operations.dead_letters.reader import read_ref
from app.operations.dead_letters.summary import Summary
from app.operations.stored_records import as_json
from knative.contract.records import Subscription
from knative.delivery.policy import Addressable
from knative.errors import UsageError
from tables.kafka.topic_reader import StoredRecord

_ORIGINAL = (("ce_id", b"1"), ("ce_type", b"t"), ("content-type", b"text/plain"), ("traceparent", b"00-1-2-01"))


def _letter(
    subscription: str = "ns/a",
    reason: str = "the answer was 503",
    time_ms: int = 5_000,
    offset: int = 0,
    uid: str = "u",
    topic: str = "t.dlq",
    data: bytes = b"busy",
) -> DeadLetter:
    added: tuple[tuple[str, bytes | None], ...] = (
        ("ce_knativeerrordest", b"http://x/"), ("CE_KnativeErrorData", base64.b64encode(data)),
        ("penstock-subscription", subscription.encode()), ("penstock-subscription-uid", uid.encode()),
        ("Penstock-Reason", reason.encode()), ("penstock-attempts", b"3"),
    )  # fmt: skip
    return DeadLetter(StoredRecord(topic, 2, offset, time_ms, b"k", (*_ORIGINAL, *added), b"data"))


def test_letter_has_the_values_of_its_headers() -> None:
    letter = _letter()
    assert (letter.subscription, letter.subscription_uid, letter.reason) == ("ns/a", "u", "the answer was 503")
    assert (letter.ref, letter.event_id, letter.time_s, letter.answer) == ("t.dlq/2/0", "1", 5.0, b"busy")
    assert letter.original_headers() == list(_ORIGINAL)
    assert read_ref(letter.ref) == ("t.dlq", 2, 0)


def test_letter_that_says_nothing() -> None:
    """The smallest form, and junk in the place of base64."""
    bare = DeadLetter(StoredRecord("t.dlq", 0, 0, 0, None, (("ce_knativeerrordata", b"%%"),), None))
    assert (bare.subscription, bare.reason, bare.event_id, bare.answer) == ("", "", "", None)
    assert owner(bare, [_subscription("a")]) is None
    assert letter_lines(bare, Ledger({}))[1:] == ["  knativeerrordata: %%"]


def test_letter_of_another_program_shows_no_secret() -> None:
    """It has the whole URL of the subscriber, which stays in the record."""
    headers = (*_ORIGINAL, ("CE_KnativeErrorDest", b"http://me:hunter2@x/p?hunter2"))
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
    assert selection.takes(_letter()) is taken


def test_letters_are_grouped_by_subscription_and_reason() -> None:
    letters = [
        (_letter("ns/b", "x", 9_000), False),
        (_letter("ns/a", "x", 3_000, topic="other.dlq"), True),
        (_letter("ns/a", "x", 1_000), False),
        (_letter("ns/a", "y", 2_000), True),
        (_letter("ns/a", "x", 2_000), True),
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
        ([_subscription("a", "v")], "v"),  # made anew under its name
        ([_subscription("a", "v", "elsewhere.dlq")], None),  # the same name at another channel
        ([_subscription("b", "v")], None),
    ],
)
def test_letter_belongs_to_its_subscription(subscriptions: list[Subscription], whose: str | None) -> None:
    subscription = owner(_letter(), subscriptions)
    assert (subscription.uid if subscription else None) == whose


def test_mark_is_of_one_letter_only() -> None:
    letter = _letter()
    mark = LedgerEntry(5_000, "1", "ns/a", "2026-11-21T12:00:00.000Z", 2)
    assert decode(encode(mark)) == mark
    ledger = Ledger({"t.dlq/2/0": mark})
    assert ledger.has(letter)
    assert letter_json(letter, ledger)["redriven"] == mark.redriven_at
    assert not ledger.has(_letter(offset=1))
    assert not ledger.has(_letter(time_ms=5_001))  # the topic was created again, and the offset means another letter
    with pytest.raises(ValueError, match="schema 9"):
        decode(b'{"schema": 9}')


def test_marks_of_what_is_gone() -> None:
    mark = LedgerEntry(0, "", "", "", 1)
    ledger = Ledger({"a/0/4": mark, "a/0/5": mark, "a/1/0": mark, "b/0/0": mark})
    assert ledger.below("a", {0: 5}) == ["a/0/4"]
    assert ledger.below("a", {0: 9, 1: 1}) == ["a/0/4", "a/0/5", "a/1/0"]
    assert ledger.below("c", {0: 9}) == []


@pytest.mark.parametrize("text", ["", "t", "t/1", "t/x/1", "t/1/-1", "/1/2", "t/1/²", "t/0/" + "9" * 5000])
def test_invalid_reference_to_a_letter_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="is not a valid reference to a letter"):
        read_ref(text)


@pytest.mark.parametrize(
    ("text", "per_s"), [("", None), ("10/s", 10), ("10", 10), ("600/m", 10), ("36/h", 0.01), ("0.5/s", 0.5)]
)
def test_rate_is_read_as_letters_per_second(text: str, per_s: float | None) -> None:
    assert read_rate(text) == per_s


@pytest.mark.parametrize("text", ["0/s", "-1/s", "fast", "10/d", "1e3", "/s"])
def test_invalid_rate_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="--rate"):
        read_rate(text)


@given(st.floats(0.01, 1000), st.lists(st.floats(0, 5), min_size=1, max_size=30))
def test_pace_is_kept(rate: float, pauses: list[float]) -> None:
    """Whenever it is asked, places are at least 1/rate apart, and the first one is at once."""
    pace, now_s, places = RateLimiter(rate), 0.0, []
    for pause_s in pauses:
        now_s += pause_s
        wait_s = pace.wait_s(now_s)
        assert wait_s >= 0
        places.append(now_s + wait_s)
    assert places[0] == pauses[0]
    assert all(later - earlier >= 1 / rate - 1e-6 for earlier, later in pairwise(places))


def test_without_a_rate_nothing_waits() -> None:
    pace = RateLimiter(None)
    assert [pace.wait_s(now_s) for now_s in (0.0, 0.0, 3.0)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("redriven", "failed", "complete", "stopped", "code"),
    [
        (0, 0, True, "", 0),  # nothing to do
        (5, 0, True, "", 0),
        (5, 0, False, "", 0),  # the limit that was asked for
        (5, 0, True, "it was interrupted", 0),  # at the very end
        (5, 0, False, "it was interrupted", 4),
        (5, 1, True, "", 4),
        (0, 1, True, "", 1),
        (0, 0, False, "it was interrupted", 1),
    ],
)
def test_exit_code_says_what_came_of_it(redriven: int, failed: int, complete: bool, stopped: str, code: int) -> None:
    summary = Summary(redriven + failed, redriven, 0, failed, complete, stopped)
    assert summary.exit_code == code


def test_summary_says_why() -> None:
    summary = Summary(selected=3, redriven=1)
    summary.fail("ns/a", "the answer was 500")
    summary.fail("ns/a", "the answer was 500")
    summary.stopped = "2 letters in a row failed"
    assert summary.as_lines() == [
        "Redriven 1, failed 2, redriven before 0.",
        "  2 x ns/a: the answer was 500",
        "The run ended early: 2 letters in a row failed. Run the command again to continue; "
        "redriven letters are not repeated.",
    ]
    assert summary.as_json()["failures"] == [{"subscription": "ns/a", "reason": "the answer was 500", "count": 2}]


def test_nothing_in_a_letter_drives_the_terminal() -> None:
    lines = letter_lines(_letter(reason="\x1b[2J", data=b"\x1b]0;x\x07\nsecond"), Ledger({}))
    assert all(line.isprintable() for line in lines)
    assert "    second" in lines
    assert printable(b"a\tb\xff\r\nc\x00") == "a\tb\\xff\nc\\x00"


def _mended(letter: DeadLetter, /, **changes: object) -> DeadLetter:
    original = letter_json(letter, Ledger({}))
    document = read_edited(json.dumps({**original, **changes}), "f.json")
    return edit(letter, document, as_json(letter.record))


def test_unchanged_letter_is_the_same_to_the_byte() -> None:
    odd = replace(_letter().record, headers=(*_letter().record.headers, ("ce_bin", b"\xff")), value=b"\xff")
    for letter in (_letter(), DeadLetter(odd), DeadLetter(replace(odd, value=None))):
        assert _mended(letter) == letter


def test_edited_letter_has_the_new_attributes_and_data() -> None:
    attributes = {"id": "1", "type": "t2", "subject": "größer", "datacontenttype": "application/json"}
    fixed = _mended(_letter(), attributes=attributes, data='{"a": 1}')
    assert dict(fixed.original_headers()) == {
        "ce_id": b"1", "ce_type": b"t2", "ce_subject": "größer".encode(), "content-type": b"application/json",
        "traceparent": b"00-1-2-01",
    }  # fmt: skip
    assert fixed.record.value == b'{"a": 1}'
    assert (fixed.ref, fixed.event_id, fixed.subscription) == ("t.dlq/2/0", "1", "ns/a")
    binary = _letter()
    edited = {**letter_json(binary, Ledger({})), "data_base64": "/w=="}
    del edited["data"]
    assert edit(binary, edited, as_json(binary.record)).record.value == b"\xff"
    assert _mended(_letter(), data=None).record.value is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"attributes": {"id": "2", "type": "t"}}, "The id of a dead letter cannot be changed"),
        ({"attributes": {"id": "1"}}, "An event needs a type"),
        ({"attributes": {"id": "1", "type": "t", "Bad-Name": "x"}}, "'Bad-Name' is not a valid attribute name"),
        ({"attributes": {"id": "1", "type": 1}}, "not an object with string values"),
        ({"data": {"a": 1}}, "data is not a string"),
        ({"data_base64": "/w=="}, "either data or data_base64"),
        ({"letter": None}, "not one dead letter"),
    ],
)
def test_invalid_edit_is_rejected(changes: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        _mended(_letter(), **changes)
    with pytest.raises(UsageError, match="not JSON"):
        read_edited("{", "f.json")
