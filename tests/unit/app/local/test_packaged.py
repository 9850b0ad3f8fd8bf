"""Where the files that come with Penstock are found, and how its modules are started."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.local import packaged
from knative.errors import PenstockError

_REPOSITORY = Path(__file__).parents[4]


def test_examples_are_those_of_the_repository() -> None:
    assert packaged.example("quickstart") == _REPOSITORY / "examples" / "quickstart"
    assert packaged.is_repository()


def test_wheel_has_its_own_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app" / "examples" / "quickstart").mkdir(parents=True)
    monkeypatch.setattr(packaged, "_EXAMPLES", (tmp_path / "app" / "examples", tmp_path / "examples"))
    assert packaged.example("quickstart") == tmp_path / "app" / "examples" / "quickstart"
    assert not packaged.is_repository()
    with pytest.raises(PenstockError, match="This installation does not have the example topology"):
        packaged.example("topology")


def test_package_folders_have_their_files() -> None:
    assert (packaged.package_folder("analytics.spark") / "pom.xml").is_file()
