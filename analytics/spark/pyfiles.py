"""Penstock's modules as a zip, for Python workers on machines where Penstock is not installed.

`penstock job` sends it to a cluster automatically. For spark-submit, `python -m analytics.spark.pyfiles penstock.zip`
writes it for `--py-files`. It contains only what may run in a worker: knative and analytics.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

NAME = "penstock-modules.zip"
PACKAGES = ("knative", "analytics")
_ROOT = Path(__file__).parents[2]
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time that a zip can hold: equal sources give an equal file


def write_zip(folder: Path, name: str = NAME) -> Path:
    """Writes the zip into `folder` and returns its path."""
    target = folder / name
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for path in sorted((_ROOT / package).rglob("*.py")):
                entry = zipfile.ZipInfo(str(path.relative_to(_ROOT)), _EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, path.read_bytes())
    return target


if __name__ == "__main__":
    wish = Path(sys.argv[1] if len(sys.argv) > 1 else NAME)
    print(write_zip(wish.parent, wish.name))
