"""What a page is. The package `pages` says how one is added."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from web.console.acts import Acts
from web.console.limits import Limits
from web.console.safety import Mode
from web.console.state import Reads, State

Values = Mapping[str, object]  #: what a template shows


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for a page, of a person who may see it."""

    state: State
    reads: Reads
    mode: Mode
    who: str  #: whose session this is, for the audit
    limits: Limits
    acts: Acts
    path: Mapping[str, str] = field(default_factory=dict)  #: the parts of the path in braces
    query: Mapping[str, str] = field(default_factory=dict)  #: the first value of each parameter
    form: Mapping[str, str] = field(default_factory=dict)  #: of a POST: the first value of each field
    has_bodies: bool = False  #: whether data of events may be shown
    is_live: bool = False  #: only the block `live` is drawn


@dataclass(frozen=True, slots=True)
class Seen:
    """A POST was carried out: the browser is sent to this address."""

    path: str


@dataclass(frozen=True, slots=True)
class Choices:
    """What a form offers: a list to choose from; or, if there are more than a page shows, a field that suggests the
    first ones."""

    options: Sequence[tuple[str, str]]  #: what is sent, and what people read
    count: int

    @property
    def are_all(self) -> bool:
        """Whether the form offers all choices."""
        return len(self.options) == self.count


def choices(names: Mapping[str, str], most: int) -> Choices:
    """Sorts them in the order of what people read. `names`: what is sent -> what people read."""
    return Choices(sorted(names.items(), key=lambda name: (name[1], name[0]))[:most], len(names))


class NotThere(Exception):
    """There is no such thing. The message is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page, at one path: whole for a browser, and as a stream of its live part for a page that is open."""

    path: str  #: `/subscription/{namespace}/{name}`
    template: str  #: in `templates`
    build: Callable[[Ask], Awaitable[Values]]  #: raises NotThere, or PenstockError
    nav: str | None = None  #: its name in the navigation; None: it is not there
    place: int = 0  #: in the navigation
    live: bool = True  #: whether the block `live` of its template changes by itself
    post: Callable[[Ask], Awaitable[Values | Seen]] | None = None  #: what its forms do
    writes: bool = True  #: whether `post` needs the mode `write`
    data: Callable[[Ask], Awaitable[bytes]] | None = None  #: JSON for its scripts, at its path with `.json`
