"""Reads a page as a browser would, for the tests: its elements, attributes and script blocks.

Does not know what should be in it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

Attributes = tuple[tuple[str, str | None], ...]


@dataclass
class ReadPage:
    """`elements`: all start tags in their order. `scripts` and `styles`: attributes and text of those blocks."""

    elements: list[tuple[str, Attributes]] = field(default_factory=list)
    scripts: list[tuple[Attributes, str]] = field(default_factory=list)
    styles: list[tuple[Attributes, str]] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    source: str = ""

    @property
    def policy(self) -> dict[str, list[str]]:
        """The Content-Security-Policy by directive."""
        named = dict(
            next(
                attributes
                for tag, attributes in self.elements
                if tag == "meta" and dict(attributes).get("http-equiv") == "Content-Security-Policy"
            )
        )
        rules = (named["content"] or "").split(";")
        return {words[0]: words[1:] for words in (rule.split() for rule in rules)}

    @property
    def data(self) -> Any:
        """What the scripts of the page are given."""
        return json.loads(next(text for attributes, text in self.scripts if ("type", "application/json") in attributes))

    @property
    def skeleton(self) -> list[tuple[str, tuple[str, ...]]]:
        """Tags with the names of their attributes: what must not depend on anybody's text."""
        return [(tag, tuple(name for name, _ in attributes)) for tag, attributes in self.elements if tag != "code"]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = ReadPage()
        self._block: tuple[str, Attributes] | None = None
        self._parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.page.elements.append((tag, tuple(attrs)))
        if tag in ("script", "style"):
            self._block, self._parts = (tag, tuple(attrs)), []

    def handle_endtag(self, tag: str) -> None:
        if self._block is not None and tag == self._block[0]:
            blocks = self.page.scripts if tag == "script" else self.page.styles
            blocks.append((self._block[1], "".join(self._parts)))
            self._block = None

    def handle_data(self, data: str) -> None:
        (self._parts if self._block is not None else self.page.text).append(data)


def read_page(source: str) -> ReadPage:
    """Parse a whole page."""
    reader = _Reader()
    reader.feed(source)
    reader.close()
    reader.page.source = source
    return reader.page
