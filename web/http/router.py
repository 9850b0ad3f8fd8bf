"""Finds the View for a path by URL patterns. Pure.

Patterns are those of Faust's aiohttp driver: `/exact`, `/{name}`, `/{name:regex}`. The pattern with the longest fixed
prefix is tried first, so a catch-all never hides a page. The driver decides between 404 and 405.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

_PART = re.compile(r"\{(?P<name>[A-Za-z_]\w*)(?::(?P<regex>(?:[^{}]|\{[^{}]*\})+))?\}")


@dataclass(frozen=True, slots=True)
class Found:
    """A path that a View serves: the handler of the method (None: not allowed), and the allowed methods."""

    handler: Any | None
    info: Mapping[str, str] = field(default_factory=dict)
    allow: str = ""  #: for 405


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """`/a/{b}/{c:.*}` as a regular expression for the whole path."""
    out, pos = [], 0
    for part in _PART.finditer(pattern):
        out.append(re.escape(pattern[pos : part.start()]))
        out.append(f"(?P<{part['name']}>{part['regex'] or '[^{}/]+'})")
        pos = part.end()
    out.append(re.escape(pattern[pos:]))
    return re.compile("".join(out))


class Router:
    """The routes of one server."""

    def __init__(self) -> None:
        self._exact: dict[str, dict[str, Any]] = {}
        self._shaped: list[tuple[str, re.Pattern[str], dict[str, Any]]] = []

    def add(self, pattern: str, methods: set[str], handler: Any) -> None:
        """Serve `methods` (upper case) of `pattern` by `handler`. The first handler of a method keeps it."""
        if "{" not in pattern:
            table = self._exact.setdefault(pattern, {})
        else:
            tables = [table for shape, _, table in self._shaped if shape == pattern]
            table = tables[0] if tables else {}
            if not tables:
                self._shaped.append((pattern, compile_pattern(pattern), table))
                self._shaped.sort(key=lambda row: -len(row[0].partition("{")[0]))
        for method in methods:
            table.setdefault(method, handler)

    def find(self, method: str, path: str) -> Found | None:
        """Returns the View for a path (as on the wire, without query); None if no View serves it."""
        plain = unquote(path)
        table = self._exact.get(plain)
        if table is not None:
            return self._choose(method, table, {})
        for _, shape, shaped in self._shaped:
            match = shape.fullmatch(path)
            if match:
                return self._choose(method, shaped, {name: unquote(text) for name, text in match.groupdict().items()})
        return None

    @staticmethod
    def _choose(method: str, table: dict[str, Any], info: Mapping[str, str]) -> Found:
        allow = next((view.allow for view in table.values() if getattr(view, "allow", None)), None)
        return Found(table.get(method), info, allow or ", ".join(sorted(table)))
