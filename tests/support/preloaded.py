"""What the fork server of the tests imports: all that its copies do import, or most of it."""

from __future__ import annotations

import gc
import importlib
import sys

from app.local.child_process import die_with_parent

_COMMANDS = "configuration dlq doctor explain lag remove seek send status tail topology traffic validate"
ITSELF = ("benchmarks.load", "benchmarks.sink", "tests.integration.controller_process")  #: modules that copies run

ARGV = sys.argv  #: Faust keeps this list when it is imported, and looks for `-A app` in it; each copy gets a new one

dies_with_server = die_with_parent()
for _name in ("faust.cli.faust", "app.compose", *(f"app.cli.{command}" for command in _COMMANDS.split()), *ITSELF):
    importlib.import_module(_name)
gc.collect()
gc.freeze()
