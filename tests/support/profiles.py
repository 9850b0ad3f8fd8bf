"""Hypothesis profiles: `dev` tries few examples and is quick, `ci` tries many. Neither minds how busy the machine is.

The environment's HYPOTHESIS_PROFILE names one; without it, it is `dev`.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_CI_EXAMPLES = 100
_DEV_EXAMPLES = 10

#: Fails when a machine is too busy to make examples quickly.
_OF_TIME = (HealthCheck.too_slow,)


def load() -> None:
    """Register both and load the one that is named."""
    settings.register_profile("dev", deadline=None, suppress_health_check=_OF_TIME, max_examples=_DEV_EXAMPLES)
    settings.register_profile(
        "ci", deadline=None, suppress_health_check=_OF_TIME, max_examples=_CI_EXAMPLES, print_blob=True
    )
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def share(count: int) -> int:
    """`count` in `ci`, and in proportion in `dev`; at least one."""
    return max(1, count * settings().max_examples // _CI_EXAMPLES)


def examples(count: int) -> settings:
    """For a test that wants a number of examples of its own: this many in `ci`."""
    return settings(max_examples=share(count))
