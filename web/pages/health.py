"""Health pages: `/healthz` and `/healthy` (whether the process is alive), `/readyz` (should it get requests).

`app/worker/lifecycle` supplies the checks. An answer, whatever it says, shows that the event loop runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from faust.web import View

#: -> (result, fields that explain it)
Check = Callable[[], tuple[bool, Mapping[str, Any]]]


class HealthView(View):
    """A health page. `register` binds it to a check, and to the words for good and bad."""

    check: Check
    words: tuple[str, str]

    async def get(self, request: Any) -> Any:
        """Answers 200 or 503, with the fields as JSON."""
        good, fields = type(self).check()
        return self.json({"status": self.words[not good], **fields}, status=200 if good else 503)


def _page(app: Any, path: str, check: Check, words: tuple[str, str]) -> None:
    name = path.strip("/")
    view = type(f"Bound{name.title()}View", (HealthView,), {"check": staticmethod(check), "words": words})
    app.page(path, name=name)(view)


def register(app: Any, alive: Check, readiness: Check) -> None:
    """Serve the three pages on a Faust app.

    `alive`: False once a required task has died. `readiness`: True if the contract was loaded, the producer was
    connected once, and the process is not draining. Its fields should include `kafka`, which is the present state and
    not a condition.
    """
    _page(app, "/healthz", alive, ("ok", "failing"))
    _page(app, "/healthy", alive, ("ok", "failing"))
    _page(app, "/readyz", readiness, ("ready", "not ready"))
