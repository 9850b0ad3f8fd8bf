"""Our modules as a zip, for Python workers on machines where Penstock is not installed.

`penstock job` on a cluster sends it by itself; for spark-submit: `python -m analytics.spark.pyfiles penstock.zip`
writes it for `--py-files`. Only what may run in a worker is in it: knative and analytics. Refuses to ship app.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

NAME = "penstock-modules.zip"
PACKAGES = ("knative", "analytics")
_ROOT = Path(__file__).parents[2]
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time a zip can say: equal sources give an equal file


def write_zip(folder: Path, name: str = NAME) -> Path:
    """Writes the zip into `folder` and gives its path."""
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
