"""Turns values into HTML. All text is escaped, and characters that are invisible or mislead are written as escapes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from knative import shown, timefmt
from knative.topology_map import TEMPLATES
from web.console.assets import asset_path
from web.console.svg import sparkline

_HERE = Path(__file__).parent
WHOLE, LIVE = "layout.html", "live.html"  #: what a template extends: the whole page, or its live part only


@cache
def environment() -> Environment:
    """Returns the environment of all templates."""
    templates = Environment(
        loader=FileSystemLoader([_HERE / "templates", TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    templates.filters |= {
        "text": shown.visible,
        "verbatim": Verbatim,
        "lines": lines,
        "uncut": uncut,
        "short": shown.short,
        "count": shown.count,
        "quantity": shown.quantity,
        "rate": shown.rate,
        "seconds": shown.seconds,
        "ago": ago,
        "code": code,
        "moment": timefmt.in_seconds,
    }
    templates.globals |= {"asset": asset_path, "sparkline": sparkline}
    return templates


def render(template: str, values: Mapping[str, object], *, live: bool = False) -> str:
    """Returns the page as HTML, or its live part. Takes some milliseconds: call it in a thread."""
    return environment().get_template(template).render(values, frame=LIVE if live else WHOLE)


def ago(age_s: float) -> str:
    """Returns how long ago something was: `now`, `12 s ago`, `3.5 min ago`."""
    return "now" if age_s < 1 else f"{shown.seconds(round(age_s))} ago"


def uncut(text: str) -> Verbatim:
    """Returns text as all other text, however long: half a command is another command."""
    return Verbatim(shown.visible(text, len(text)))


def lines(text: str) -> Verbatim:
    """Returns text of several lines, each of them as all other text."""
    return Verbatim("\n".join(shown.visible(line, shown.SENTENCE_MAX) for line in text.split("\n")))


def code(text: str) -> Markup:
    """Returns our own text, with parts between backticks as code."""
    parts = enumerate(text.split("`"))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part) for place, part in parts
    )


class Verbatim(str):
    """Text that stays as it is, such as what a person has written into a form. It is escaped as all other text."""

    __slots__ = ()


def _finalize(value: object) -> object:
    """Text of senders may hold anything; `Markup` is our own and stays."""
    return shown.visible(value, shown.SENTENCE_MAX) if type(value) is str else value
