"""Text and figures as people are shown them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative import shown


@given(st.text(st.characters(), max_size=400), st.integers(2, 350))
def test_visible_text_is_printable_and_no_longer_than_its_limit(text: str, limit: int) -> None:
    visible = shown.visible(text, limit)

    assert len(visible) <= limit
    assert all(letter.isprintable() for letter in visible)
    assert visible.encode().decode() == visible
    assert len(shown.short(text, 20)) <= 20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/web/checkout", "/web/checkout"),
        ("a\u202eb", "a\\u202eb"),
        ("a\x00\n\x1b", "a\\x00\\n\\x1b"),
        ("\ud800", "\\ud800"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("مصدر", "مصدر"),
        ("e\u0301", "e\u0301"),
        ("e" + "\u0301" * 4, "e\u0301\u0301\\u0301\\u0301"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, expected: str) -> None:
    assert shown.visible(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", "orders"),
        ("http://x.svc/", "x.svc"),
        ("http://a-very-long-name.default.svc.cluster.local/path", "a-very-long-na…er.local/path"),
        ("http://", "http://"),
    ],
)
def test_names_in_boxes_are_short_and_keep_both_ends(text: str, expected: str) -> None:
    assert shown.short(text) == expected


_FIGURES: list[tuple[str, float | None, str]] = [
    ("rate", None, "\N{EN DASH}"),
    ("rate", 0, "0/s"),
    ("rate", 0.0001, "<0.001/s"),
    ("rate", 0.0123, "0.012/s"),
    ("rate", 0.25, "0.25/s"),
    ("rate", 12.5, "12.5/s"),
    ("rate", 11.25, "11.3/s"),
    ("rate", 99.96, "100/s"),
    ("rate", 561.9, "562/s"),
    ("rate", 999.7, "1k/s"),
    ("rate", 3800.5, "3.8k/s"),
    ("rate", 1234567.0, "1.23M/s"),
    ("bytes", 0, "0 B/s"),
    ("bytes", 812.3, "812 B/s"),
    ("bytes", 456000.0, "456kB/s"),
    ("seconds", 0.0042, "4.2 ms"),
    ("seconds", 0.118, "118 ms"),
    ("seconds", 2.5, "2.5 s"),
    ("seconds", 210, "3.5 min"),
    ("seconds", 7200, "2 h"),
    ("count", 41320, "41,320"),
    ("count", None, "\N{EN DASH}"),
]


@pytest.mark.parametrize(("kind", "value", "expected"), _FIGURES)
def test_figure_is_written_with_its_unit(kind: str, value: float | None, expected: str) -> None:
    write = {"rate": shown.rate, "bytes": shown.bytes_rate, "seconds": shown.seconds, "count": shown.count}[kind]

    assert write(value) == expected


def test_figure_that_is_not_finite_is_unknown() -> None:
    assert shown.rate(float("nan")) == shown.seconds(float("inf")) == shown.UNKNOWN


def test_times_are_in_utc_and_say_the_day_once() -> None:
    assert shown.span(0, 3600) == "1970-01-01 00:00:00 \N{EN DASH} 01:00:00 UTC"
    assert shown.span(0, 90_000) == "1970-01-01 00:00:00 \N{EN DASH} 1970-01-02 01:00:00 UTC"


def test_noun_after_a_number_is_singular_only_after_one() -> None:
    assert [shown.plural(number, "vertex", "vertices") for number in (0, 1, 2)] == [
        "0 vertices",
        "1 vertex",
        "2 vertices",
    ]
    assert shown.plural(3, "hop") == "3 hops"
