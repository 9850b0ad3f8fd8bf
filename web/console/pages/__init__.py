"""All pages of the console. To add one, write two files:

    pages/<page>.py          PAGES: one or more `Page`s, whose `build` returns what the template shows
    templates/<page>.html    {% extends frame %}, with the blocks `title`, `live` and `still`

Nothing else changes: modules of this package are found by themselves. `build` gets an `Ask`: the state of the
installation, what it may ask Kafka for (`Reads`, of which `app` has the implementation), and the parameters. It returns
values; templates contain no decisions. It runs on the event loop: what takes more than a millisecond goes to a thread.

The block `live` is drawn again every two seconds while the page is open, if it has changed. Forms belong into `still`
(below it) or `still_before` (above), with {{ parts.token(form_token) }}, and `Page.post` carries them out. Tables of
resources, states and figures are in `rows.html` and `parts.html`. Every page works without scripts.

A page that needs more from Kafka adds a method to `Reads`; `app/operations/console/reads.py` implements it, and
`tests/support/console.py` has it in memory. Where a command knows the answer already, both take it from one place.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from web.console.page import Page


def all_pages() -> list[Page]:
    """Returns the pages of all modules, in the order of the navigation."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    pages: list[Page] = [page for name in names for page in import_module(f"{__name__}.{name}").PAGES]
    return sorted(pages, key=lambda page: page.place)
