"""`python -m app worker`: Faust's command line on our app, in whatever folder it runs.

`faust -A app` looks for a package `app` in the current folder first, so there it may find one that is not ours.
"""

from __future__ import annotations

import sys

from faust.cli.faust import cli

import app


def main() -> None:
    """As `faust -A app ARGUMENT...`."""
    sys.argv[1:1] = ["-A", "app"]
    _ = app.app  # built now, with all that it imports: Faust puts the current folder first while it looks for it
    cli()


if __name__ == "__main__":
    main()
