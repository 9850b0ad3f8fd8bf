"""What the controller takes from the settings of workers."""

from __future__ import annotations

import pytest

from app.settings import load_settings
from app.worker.controller_config import controller_config


@pytest.mark.parametrize(
    ("settings", "silent_s"),
    [
        ({}, 12.0),
        ({"session_timeout_s": "6"}, 10.0),
        ({"session_timeout_s": "300"}, 304.0),
        ({"session_timeout_s": "6", "group_protocol": "consumer"}, 49.0),
    ],
)
def test_worker_is_gone_when_its_session_is_over(settings: dict[str, str], silent_s: float) -> None:
    assert controller_config(load_settings(settings), {}).silent_s == silent_s
