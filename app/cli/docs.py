"""`penstock docs WORD...`: the page of the documentation that is about it."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from app.cli.output.format import note
from app.local.packaged import document_folder
from knative.errors import PenstockError

_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_FOLDERS = ("", "how-to", "reference", "explanation")  # decisions are for those who change Penstock


Words = Annotated[list[str] | None, typer.Argument(help="What the page is about.", metavar="WORD")]


def docs(words: Words = None) -> None:
    """Show the page of the documentation about some words.

    Without words, lists all pages. On a terminal it opens a pager.

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
        raise PenstockError(f"No page is about {' '.join(words)}.", "`penstock docs` lists all pages.")
    _show(pages[best[0]])
    note(f"This was {document_folder() / best[0]}." + (f" See also: {', '.join(best[1:4])}." if best[1:] else ""))


def ranked(pages: Mapping[str, str], words: Sequence[str]) -> list[str]:
    """The names of the pages that have all words, those with the words in their name or headings first. Pure."""
    wanted = [word.lower() for word in words]
    scores: dict[str, float] = {}
    for name, text in pages.items():
        plain, headings = text.lower(), " ".join([name.replace("-", " "), *_HEADING.findall(text)]).lower()
        if all(word in plain or word in headings for word in wanted):
            # How much of the page it is, so that a long one does not win by its length.
            share = min(2.0, 100 * sum(plain.count(word) for word in wanted) / (1 + len(plain.split())))
            title = f"{name.replace('-', ' ')} {_title(text)}".lower()
            scores[name] = 10 * sum(word in title for word in wanted) + sum(word in headings for word in wanted) + share
    return sorted(scores, key=lambda name: -scores[name])


def _pages(folder: Path) -> dict[str, str]:
    files = [file for part in _FOLDERS for file in sorted((folder / part).glob("*.md"))]
    return {str(file.relative_to(folder)): file.read_text("utf-8") for file in files}


def _title(text: str) -> str:
    found = _HEADING.search(text)
    return found[1] if found else ""


def _show(text: str) -> None:
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))
