"""What to say about an unknown name: which known names are similar, and which names are known. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def known_names(names: Iterable[str]) -> str:
    """Returns the end of a sentence: "known: a, b, c", or the first ten and how many more there are."""
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - 10} more" if len(distinct) > 10 else ""
    return f"known: {', '.join(distinct[:10]) or 'none'}{more}."


def meant(wish: str, names: Iterable[str], otherwise: str) -> str:
    """Returns a hint: "Did you mean ns/orders?" if one name is similar to `wish`, else `otherwise`."""
    near = difflib.get_close_matches(wish, list(names), n=1, cutoff=0.7)
    return f"Did you mean {near[0]}?" if near else otherwise
