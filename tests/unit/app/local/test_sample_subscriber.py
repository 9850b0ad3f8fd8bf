"""The sample subscriber: which events it rejects, and its one line for each."""

from __future__ import annotations

from app.local.sample_subscriber import Refusals, attributes_of, line_of


def test_every_tenth_event_is_rejected_at_each_attempt() -> None:
    refusals = Refusals(every=10, remembered=25)
    verdicts = {number: refusals.refuses("/s", str(number)) for number in range(1, 21)}
    assert [number for number, refused in verdicts.items() if refused] == [10, 20]
    assert refusals.refuses("/s", "20")
    assert not refusals.refuses("/s", "19")


def test_sample_subscriber_prints_one_safe_line() -> None:
    attributes = attributes_of(
        {"Ce-Id": "a%20b", "ce-type": "t", "CE-Source": "/s", "Content-Type": "x/y", "Host": "h"}
    )
    assert attributes == {"id": "a b", "type": "t", "source": "/s", "datacontenttype": "x/y"}
    assert attributes_of({"ce-source": "/a%20b", "ce-dataschema": "/a%2520b"}) == {
        "source": "/a%20b",
        "dataschema": "/a%20b",
    }
    assert line_of("good", 200, attributes, b"d\na") == "good  got     id=a b type=t source=/s d a"
    assert line_of("picky", 500, {"id": "\x1b"}, b"").isprintable()
