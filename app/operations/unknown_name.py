"""What to say about an unknown name: which known names are similar, and which names are known. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def known_names(names: Iterable[str]) -> str:
    """Returns the end of a sentence: "known: a, b, c", or the first ten and how many more there are."""
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - 10} more" if len(distinct) > 10 else ""
    return f"known: {', '.join(distinct[:10]) or 'none'}{more}."


def meant(wish: str, names: Sequence[str], otherwise: str | None = None) -> str:
    """Returns a hint: "Did you mean ns/orders?" if one name is similar to `wish`, else `otherwise`; None = how to
    write a name, unless `wish` is written so."""
    if otherwise is None:
        otherwise = "Write NAMESPACE/NAME." if names and "/" not in wish else ""
    # Names of a long namespace are all similar, so the part that each has of its own must be.
    own = wish.rpartition("/")[2]
    similar = [name for name in names if difflib.get_close_matches(own, [name.rpartition("/")[2]], cutoff=0.7)]
    near = difflib.get_close_matches(wish, similar, n=1, cutoff=0)
    return f"Did you mean {near[0]}?" if near else otherwise
