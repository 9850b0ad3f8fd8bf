"""Health pages: `/healthz` and the seed's `/healthy` (does the process live), `/readyz` (should it get requests).

Refuses to decide: `app/worker/lifecycle` hands in two functions that know. Answering at all shows that the event loop
turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from faust.web import View

#: -> (is it so, fields that say why).
Check = Callable[[], tuple[bool, Mapping[str, Any]]]


class HealthView(View):
    """Bound to one check and its words by `register`."""

    check: Check
    words: tuple[str, str]

    async def get(self, request: Any) -> Any:
        """200 or 503, with the fields as JSON."""
        good, fields = type(self).check()
        return self.json({"status": self.words[not good], **fields}, status=200 if good else 503)


def _page(app: Any, path: str, check: Check, words: tuple[str, str]) -> None:
    name = path.strip("/")
    view = type(f"Bound{name.title()}View", (HealthView,), {"check": staticmethod(check), "words": words})
    app.page(path, name=name)(view)


def register(app: Any, alive: Check, readiness: Check) -> None:
    """Serve the three pages on a Faust app.

    `alive`: False once a task that must run has died. `readiness`: contract once loaded, producer once connected, not
    draining; its fields should hold `kafka`, which is about now and no condition.
    """
    _page(app, "/healthz", alive, ("ok", "failing"))
    _page(app, "/healthy", alive, ("ok", "failing"))
    _page(app, "/readyz", readiness, ("ready", "not ready"))
