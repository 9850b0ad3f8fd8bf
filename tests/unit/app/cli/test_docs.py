"""The page that some words mean."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.cli.docs import ranked

_PAGES = {
    "how-to/work-with-dead-letters.md": "# How to look at and redrive dead letters\n\nA letter is an event.",
    "reference/metrics.md": "# Metrics\n\nOf dead letters, redrive and more." + " dead letters" * 50,
    "how-to/size.md": "# How to size it\n\nMemory.",
}


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (["dead", "letters"], "how-to/work-with-dead-letters.md"),
        (["Redrive"], "how-to/work-with-dead-letters.md"),
        (["metrics"], "reference/metrics.md"),
        (["memory"], "how-to/size.md"),
        (["dead", "memory"], None),
    ],
)
def test_page_with_the_words_in_its_title_comes_first(words: list[str], first: str | None) -> None:
    assert next(iter(ranked(_PAGES, words)), None) == first


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (["dead", "letters"], "# How to look at and redrive dead letters"),
        (["seek"], "# How to replay events, or skip them"),
        (["glossary"], "# Glossary"),
        (["retry"], "# Delivery semantics"),
        (["retries"], "# Delivery semantics"),
        (["dev"], "# Command line"),
    ],
)
def test_real_pages_are_found(words: list[str], title: str) -> None:
    assert title in CliRunner().invoke(cli, ["docs", *words]).output.splitlines()


def test_without_words_all_pages_are_listed() -> None:
    listed = CliRunner().invoke(cli, ["docs"]).output.splitlines()
    folder = Path(__file__).parents[4] / "docs"
    assert {line.split()[0] for line in listed} == {
        str(page.relative_to(folder))
        for page in folder.rglob("*.md")
        if page.parent.name not in ("decisions", "contributing")
    }
