"""`python -m app worker`: Faust's command line on our app, from any folder.

`faust -A app` searches the current folder first and may find another package named `app` there.
"""

from __future__ import annotations

import sys

from faust.cli.faust import cli

import app


def main() -> None:
    """Run `faust -A app ARGUMENT...`."""
    sys.argv[1:1] = ["-A", "app"]
    if sys.argv[3:4] == ["worker"] and app.take_seat():
        sys.argv.insert(1, "--quiet")  # Faust's banner, of each process, would be between the lines of the log
    _ = app.app  # built before Faust puts the current folder first in the import path
    cli()


if __name__ == "__main__":
    main()
