"""Packages that are kept out while libraries are imported can be used later."""

from __future__ import annotations

import json
import os
import sys

import pytest

from tests.support.processes import run

_KEPT_OUT = ("aiohttp", "aiokafka.client", "aiokafka.conn", "croniter", "dateutil", "pygments", "rich", "yaml")
_PROGRAM = """
import json, sys
from app.lean_imports import import_libraries
import_libraries()
before = sorted(sys.modules)
{use}
print(json.dumps([before, result]))
"""


@pytest.mark.parametrize(
    ("use", "result"),
    [
        ("from mode.utils import cron; result = 0 < cron.secs_for_next('* * * * *') <= 60", True),
        ("from faust.types import web; result = type(web.HttpClientT.__new__).__name__", "function"),
        ("import aiohttp.client; result = aiohttp.client.ClientSession.__module__", "aiohttp.client"),
        ("import yaml; result = yaml.safe_load('[1]')", [1]),
        ("import rich.console; result = rich.console.Console.__name__", "Console"),
        ("import aiokafka.client; result = 'aiokafka.producer' in sys.modules", False),
        ("import aiokafka; result = aiokafka.AIOKafkaProducer.__module__", "aiokafka.producer.producer"),
        ("from aiokafka import AIOKafkaConsumer as kind; result = kind.__module__", "aiokafka.consumer.consumer"),
        ("import aiokafka; result = [hasattr(aiokafka, 'no'), hasattr(aiokafka, 'no'), aiokafka.__version__]",
         [False, False, "0.14.0"]),
        ("from faust.transport.drivers import aiokafka as it; result = it.Transport.driver_version", "aiokafka=0.14.0"),
    ],
)  # fmt: skip
def test_what_is_kept_out_is_there_later(use: str, result: object) -> None:
    done = run([sys.executable, "-c", _PROGRAM.format(use=use)], os.environ)
    assert done.returncode == 0, done.stderr
    before, value = json.loads(done.stdout)
    assert not {*before} & {*_KEPT_OUT}
    assert value == result
