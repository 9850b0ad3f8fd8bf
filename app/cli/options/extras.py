"""Offers to install what a command needs and this installation lacks."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from importlib.metadata import version

import typer

from app.cli.options.confirmation import has_terminal
from app.cli.output.format import note
from app.local.install import install, locked
from app.local.packaged import lock_of
from app.settings.extras import MEGABYTES, need
from knative.errors import PenstockError, UsageError


def need_or_install(extra: str, what: str, modules: tuple[str, ...] = ()) -> None:
    """Works as `app.settings.extras.need`; on a terminal it asks, and then installs the packages of the extra."""
    try:
        need(extra, what, modules)
    except UsageError as problem:
        if not has_terminal() or importlib.util.find_spec("pip") is None:
            raise
        note(problem.what)
        if not typer.confirm(f"Install it now, about {MEGABYTES[extra]} MB to download?", default=True, err=True):
            raise
    else:
        return
    lock = lock_of(extra)
    packages = [f"penstock[{extra}]=={version('penstock')}"] if lock is None else locked(lock)
    with contextlib.redirect_stdout(sys.stderr):
        if install(sys.executable, packages):
            raise PenstockError(f"The packages of penstock[{extra}] were not installed.")
    importlib.invalidate_caches()
    need(extra, what, modules)
