"""base/settings.env: every setting is in it, as a comment that is right when it is not one any more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.settings.describe import variable
from app.settings.fields import Settings
from app.settings.load import CONFIG_VARIABLE, load_settings
from app.settings.reference import SETTINGS_FILE


def test_every_setting_is_in_the_file_as_a_comment() -> None:
    lines = SETTINGS_FILE.read_text().splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == []
    names = [match[1] for line in lines if (match := re.match(r"#(PENSTOCK_\w+)=", line))]
    assert names == [variable(name) for name in Settings.model_fields]


def test_file_without_the_comment_signs_has_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = tmp_path / "settings.env"
    written.write_text(re.sub(r"^#(?=PENSTOCK_)", "", SETTINGS_FILE.read_text(), flags=re.MULTILINE))
    monkeypatch.setenv(CONFIG_VARIABLE, str(written))
    settings = load_settings()
    assert settings.model_dump() == Settings().model_dump()
    assert settings.warnings == ()
    assert len(settings.sources) == len(Settings.model_fields)
