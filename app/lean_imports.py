"""Keeps out of a worker what libraries import and no worker uses.

Faust, mode and structlog import other packages for features that Penstock does not have: clients of HTTP and Kafka,
crontabs, YAML, coloured tracebacks. Together they take a sixth of a worker's memory, and of the CPU of its start.
Nothing of them is changed, and whatever imports these packages later gets them as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

#: Names that Faust and mode use in annotations, and to make objects for features that Penstock does not use.
_MADE_LATER: Mapping[str, str] = {
    "aiohttp.client": "ClientSession",
    "aiokafka.conn": "AbstractTokenProvider",
    "croniter.croniter": "croniter",
}
#: For structlog and Faust these are optional: a kind of traceback, and a codec.
_OPTIONAL = ("rich", "yaml")
#: Faust and our clients for groups take what they need out of its modules, and of the package itself the version only.
_RUNS_LATER = "aiokafka"
_IMPORTERS = ("faust.cli.worker", "faust.app.base", "faust.auth", "faust.serializers.codecs", "structlog")


def import_libraries() -> None:
    """Call it before anything imports Faust or structlog."""
    if _RUNS_LATER not in sys.modules:
        sys.modules[_RUNS_LATER] = _package(_RUNS_LATER)
    with _in_their_place({**dict.fromkeys(_OPTIONAL), **{module: _stand_in(module) for module in _MADE_LATER}}):
        for name in _IMPORTERS:
            import_module(name)


@contextmanager
def _in_their_place(modules: Mapping[str, ModuleType | None]) -> Iterator[None]:
    """None: as if it was not installed."""
    own = {name: module for name, module in modules.items() if name not in sys.modules}
    sys.modules.update(own)  # type: ignore[arg-type]  # None is how Python spells it
    try:
        yield
    finally:
        for name in own:
            del sys.modules[name]


def _stand_in(module: str) -> ModuleType:
    """Returns a module with the one name that is imported from it: a class that makes objects of the real one."""
    name = _MADE_LATER[module]

    def new(_cls: type, *args: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*args, **options)

    made = ModuleType(module)
    setattr(made, name, type(name, (), {"__new__": new}))
    return made


class _RunsLater(ModuleType):
    """A package that runs when the event loop's thread uses a name of it. Until then, only the modules in it can be
    imported."""

    def __getattr__(self, name: str) -> Any:
        self.__class__ = ModuleType  # type: ignore[assignment]
        assert self.__spec__ is not None
        assert self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _package(name: str) -> ModuleType:
    spec = find_spec(name)
    assert spec is not None, "Penstock depends on it"
    made = module_from_spec(spec)
    made.__version__ = version(name)  # type: ignore[attr-defined]
    made.__class__ = _RunsLater
    return made
