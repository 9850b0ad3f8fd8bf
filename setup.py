"""Puts `examples` into the wheel, as `app/examples`. Everything else about the build is in pyproject.toml."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

EXAMPLES = Path("examples")


class BuildWithExamples(build_py):
    """Modules and package data as always, then the examples that `app/local/packaged.py` looks for."""

    def run(self) -> None:
        """Copy them, except for an editable installation, which finds them in the repository."""
        super().run()
        if self.editable_mode:
            return
        for source, target in self._examples().items():
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """What was copied belongs to the outputs."""
        return [*super().get_outputs(include_bytecode), *([] if self.editable_mode else self._examples().values())]

    def _examples(self) -> dict[str, str]:
        files = [one for one in sorted(EXAMPLES.rglob("*")) if one.is_file() and one.suffix != ".pyc"]
        return {str(one): str(Path(self.build_lib) / "app" / one) for one in files}


setup(cmdclass={"build_py": BuildWithExamples})
