"""Imports Faust and structlog without the packages that only their unused features need.

Faust, mode and structlog import HTTP and Kafka clients, crontabs, YAML and coloured tracebacks, which no worker uses.
These packages would take a sixth of a worker's memory, and of the CPU time of its start. There are three ways:

    optional         for structlog and Faust, the package looks as if it were not installed
    stand-in         while they are imported, a module has only a class, which makes objects of the real class later
    lazy             the package runs when a name of it is used for the first time

The packages themselves are unchanged, and later imports get the real ones.
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

#: Module -> the class that Faust and mode import from it, for annotations and for features that Penstock does not use.
_STAND_INS: Mapping[str, str] = {
    "aiohttp.client": "ClientSession",
    "aiokafka.conn": "AbstractTokenProvider",
    "croniter.croniter": "croniter",
}
#: structlog works without `rich` (a kind of traceback), and Faust without `yaml` (a codec).
_OPTIONAL = ("rich", "yaml")
#: Faust and our clients for groups import modules of this package, and use only its version from the package itself.
_LAZY = "aiokafka"
_IMPORTERS = ("faust.cli.worker", "faust.app.base", "faust.auth", "faust.serializers.codecs", "structlog")


def import_libraries() -> None:
    """Import Faust and structlog. Call this before anything else imports them."""
    if _LAZY not in sys.modules:
        sys.modules[_LAZY] = _lazy_package(_LAZY)
    with _replaced({**dict.fromkeys(_OPTIONAL), **{module: _stand_in(module) for module in _STAND_INS}}):
        for name in _IMPORTERS:
            import_module(name)


@contextmanager
def _replaced(modules: Mapping[str, ModuleType | None]) -> Iterator[None]:
    """Within the block, imports get these modules, unless the real ones are already imported. None: not installed."""
    replacements = {name: module for name, module in modules.items() if name not in sys.modules}
    sys.modules.update(replacements)  # type: ignore[arg-type]  # None is how Python spells it
    try:
        yield
    finally:
        for name in replacements:
            del sys.modules[name]


def _stand_in(module: str) -> ModuleType:
    """Returns a module that has only the class of _STAND_INS. A call of the class makes an object of the real class."""
    name = _STAND_INS[module]

    def new(_cls: type, *args: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*args, **options)

    stand_in = ModuleType(module)
    setattr(stand_in, name, type(name, (), {"__new__": new}))
    return stand_in


class _Lazy(ModuleType):
    """A package that runs when a name of it is used. Until then, only its modules can be imported. Event loop
    only."""

    def __getattr__(self, name: str) -> Any:
        self.__class__ = ModuleType  # type: ignore[assignment]
        assert self.__spec__ is not None
        assert self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _lazy_package(name: str) -> ModuleType:
    spec = find_spec(name)
    assert spec is not None, "Penstock depends on it"
    package = module_from_spec(spec)
    package.__version__ = version(name)  # type: ignore[attr-defined]
    package.__class__ = _Lazy
    return package
