"""`penstock demo`: sends a thousand events through everything, and counts them from outside."""

from __future__ import annotations

import typer


def demo() -> None:
    """Send 1,000 events through the whole system, and count them.

    It uses free ports and a temporary directory. The last line is JSON.

    Exit code: 0 only if no event was lost or out of order.

    \b
    Examples:
      penstock demo
      penstock demo 2>/dev/null | tail -1
    """
    # Here, because --help would take 0.2 s longer.
    from app.cli.demos.quickstart import main

    raise typer.Exit(main())
