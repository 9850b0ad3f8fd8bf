"""Puts `examples` and the pages of `docs` into the wheel, below `app`, and the manual pages where `man` finds them. All
else of the build is in pyproject.toml."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

#: Folder -> what is taken of it.
BESIDE = {"examples": "*", "docs": "*.md"}
#: Folders in them that are not: what is for those who change the code, and the census, which is a project of its own.
NOT_TAKEN = {"decisions", "contributing", "census"}


class BuildWithFiles(build_py):
    """Modules and package data as always, then the files that `app/local/packaged.py` looks for."""

    def run(self) -> None:
        """Copy them, except for an editable installation, which finds them in the repository."""
        super().run()
        if self.editable_mode:
            return
        for source, target in self._files().items():
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """What was copied belongs to the outputs."""
        return [*super().get_outputs(include_bytecode), *([] if self.editable_mode else self._files().values())]

    def _files(self) -> dict[str, str]:
        files = [file for folder, names in BESIDE.items() for file in sorted(Path(folder).rglob(names))]
        files = [file for file in files if file.is_file() and file.suffix != ".pyc" and not NOT_TAKEN & set(file.parts)]
        return {str(file): str(Path(self.build_lib) / "app" / file) for file in files}


manual = sorted(str(page) for page in Path("man/man1").glob("*.1"))
setup(cmdclass={"build_py": BuildWithFiles}, data_files=[("share/man/man1", manual)])
