"""Patterns of LIKE, short and long, against a matcher that tries everything."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.cesql.like import compile_pattern, pattern_weight

#: Few `%`: a matcher that tries everything takes exponential time otherwise.
_PARTS = st.lists(st.text(alphabet="ab_", max_size=30), min_size=1, max_size=4)
_TEXTS = st.one_of(st.text(alphabet="ab", max_size=60), st.text(alphabet="ab\n", max_size=20))


def _trying_everything(pattern: str, text: str) -> bool:
    regex = "".join({"%": ".*", "_": "."}.get(character, re.escape(character)) for character in pattern)
    return re.compile(regex, re.DOTALL).fullmatch(text) is not None


@given(_PARTS, _TEXTS)
def test_pattern_fits_the_texts_that_it_should(parts: list[str], text: str) -> None:
    pattern = "%".join(parts)
    assert bool(compile_pattern(pattern)(text)) is _trying_everything(pattern, text)


@given(_PARTS, st.lists(st.text(alphabet="ab", max_size=10), min_size=4, max_size=4))
def test_text_that_was_made_from_a_pattern_fits(parts: list[str], between: list[str]) -> None:
    text = parts[0] + "".join(gap + part for gap, part in zip(between, parts[1:], strict=False))
    assert compile_pattern("%".join(parts))(text.replace("_", "a"))


@pytest.mark.parametrize(
    ("pattern", "weight"),
    [
        ("", 0),
        ("%", 0),
        ("%%", 0),
        ("order.%", 0),
        ("%_ed", 0),
        ("a%b", 0),
        ("%x%", 1),
        ("%a%b%", 1),
        (f"%{'a' * 100}%", 1),
        ("%a_b%", 3),
        ("%a_b%____%c%", 4),
        (r"%\_%", 1),
        (r"%\%\%%", 1),
    ],
)
def test_only_what_is_between_two_wildcards_walks_through_a_text(pattern: str, weight: int) -> None:
    assert pattern_weight(pattern) == weight
