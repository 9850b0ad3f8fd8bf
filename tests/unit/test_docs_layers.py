"""The lists of folders in the architecture page are complete, and in the order of the layers of import-linter."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
#: Package -> its layers, the top one first.
LAYERS: dict[str, list[set[str]]] = {
    package: [{name.strip() for name in layer.split("|")} for layer in contract["layers"]]
    for contract in CONTRACTS
    if contract["type"] == "layers"
    for package in contract.get("containers", ())
    if "." not in package
}


def _listed(package: str) -> list[str]:
    """The folders and modules of a package's list, from its first row to its last."""
    _, after = re.split(rf"^`{package}`[^\n]*:$", PAGE, flags=re.MULTILINE)
    table = after.partition("|---|---|\n")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines()]
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def test_every_package_has_layers() -> None:
    assert sorted(LAYERS) == ["agents", "analytics", "app", "controller", "knative", "tables", "web"]


@pytest.mark.parametrize("package", sorted(LAYERS))
def test_list_of_a_package_has_each_folder_below_those_that_import_it(package: str) -> None:
    layer_of = {name: rank for rank, layer in enumerate(LAYERS[package]) for name in layer}
    listed = _listed(package)
    assert sorted(listed) == sorted(layer_of)
    assert listed == sorted(listed, key=lambda name: layer_of[name])
