"""Tests of the rules for the subjects of commits."""

from __future__ import annotations

import pytest

from tests.support.commit_subjects import SUBJECT_MAX, problems_of


@pytest.mark.parametrize(
    ("subject", "problems"),
    [
        ("Ingress: names the header that is too long", []),
        ("x" * SUBJECT_MAX, []),
        ("x" * (SUBJECT_MAX + 3), ["has 75 characters, 3 too many"]),
        ("One thing; and another", ['contains ";": make a commit of each thing']),
        ("A sentence.", ["ends with a full stop"]),
    ],
)
def test_subject_is_short_and_about_one_thing(subject: str, problems: list[str]) -> None:
    assert problems_of(subject) == problems
