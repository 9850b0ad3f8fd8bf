"""`penstock docs WORD...`: the page of the documentation that is about it."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from app.cli.output.format import note
from app.local.packaged import document_folder
from knative.errors import PenstockError

_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_WORD = re.compile(r"[a-z0-9]+(?:[./_][a-z0-9]+)*")  # `knative.dev/v1` is one
_PLURAL = re.compile(r"(?<=[a-z]{2})(?:ies|(?<![siu])s)$")
_ALL_COMMANDS = "reference/command-line.md"  # a how-to of one says more
_FOR_DEVELOPERS = ("explanation/tour.md", "explanation/architecture.md")
_FOLDERS = ("", "how-to", "reference", "explanation")  # decisions are for those who change Penstock


Words = Annotated[list[str] | None, typer.Argument(help="A word that the page is about.", metavar="WORD")]


def docs(words: Words = None) -> None:
    """Show the page of the documentation about a topic.

    Without WORD, the command lists all pages. On a terminal it opens a pager.

    \b
    Examples:
      penstock docs
      penstock docs dead letters
      penstock docs seek
    """
    pages = _pages(document_folder())
    if not words:
        for name, text in pages.items():
            print(f"{name:44} {_title(text)}")
        return
    best = ranked(pages, words)
    if not best:
        raise PenstockError(f"There is no page about {' '.join(words)}.", "`penstock docs` lists all pages.")
    _show(pages[best[0]])
    note(f"This was {document_folder() / best[0]}." + (f" See also: {', '.join(best[1:4])}." if best[1:] else ""))


def ranked(pages: Mapping[str, str], words: Sequence[str]) -> list[str]:
    """Returns the names of the pages that have all words, in any number; those with a heading of just these words
    first, then those with the words in their title or headings. Pure."""
    query = [stem for word in words for stem in _stems(word)]
    scores: dict[str, float] = {}
    for name, text in pages.items():
        headings = [
            _stems(heading) for heading in (name.removesuffix(".md").replace("-", " "), *_HEADING.findall(text))
        ]
        plain, in_headings = Counter(_stems(text)), Counter(stem for heading in headings for stem in heading)
        if query and all(plain[word] or in_headings[word] for word in query):
            # How much of the page it is, so that a long one does not win by its length.
            share = min(2.0, 100 * sum(plain[word] for word in query) / plain.total())
            title = {*headings[0], *_stems(_title(text))}
            exact = name != _ALL_COMMANDS and any(set(heading) == set(query) for heading in headings)
            scores[name] = 3 * exact + 10 * sum(word in title for word in query) + share
            scores[name] += sum(in_headings[word] > 0 for word in query)
    # A tour of the code has headings about everything.
    return sorted(scores, key=lambda name: (name in _FOR_DEVELOPERS, -scores[name]))


def _stems(text: str) -> list[str]:
    """Returns its words without the ends of plurals."""
    return [_PLURAL.sub(lambda end: "y" if end[0] == "ies" else "", word) for word in _WORD.findall(text.lower())]


def _pages(folder: Path) -> dict[str, str]:
    files = [file for part in _FOLDERS for file in sorted((folder / part).glob("*.md"))]
    return {str(file.relative_to(folder)): file.read_text("utf-8") for file in files}


def _title(text: str) -> str:
    match = _HEADING.search(text)
    return match[1] if match else ""


def _show(text: str) -> None:
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))
