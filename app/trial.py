"""Builds the program as the next run of it will be, and ends: settings, secrets and certificates are read, nothing is
connected. Run as a process by `app/worker/renewal`."""

from __future__ import annotations

import app
from app.lean_imports import import_libraries

if __name__ == "__main__":
    import_libraries()
    print(app.app.conf.id)
