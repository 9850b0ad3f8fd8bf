"""The settings: their fields, their sources, checks across fields, and the reference page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.settings.fields import Settings


def ignored_variables() -> list[str]:
    """Returns a sentence for each variable that looks like a setting and is not one."""
    if not any(name.upper().startswith("PENSTOCK_") for name in os.environ):
        return []
    from app.settings import load

    return load.ignored_variables()


def load_settings(overrides: Mapping[str, str] | None = None) -> Settings:
    """Works as `app.settings.load.load_settings`, which says how. Imports it when it is called: most commands have no
    other use for pydantic, and their `--help` is a tenth faster without."""
    from app.settings import load

    return load.load_settings(overrides)
