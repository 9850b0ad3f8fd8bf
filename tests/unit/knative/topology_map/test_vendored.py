"""The vendored scripts are the published ones, with their licences, and survive being put into a page."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from analytics.topology.report import page
from knative.topology_map import ASSETS, VENDOR, VENDORED

ROW = re.compile(
    r"^\| `(?P<file>\S+)` \| `\S+` \| \S+ \| `\S+` \| MIT, `(?P<licence>\S+)` \| `(?P<hash>[0-9a-f]{64})` \|$"
)


def test_each_script_is_listed_with_its_hash_and_licence() -> None:
    rows = [ROW.match(line) for line in (VENDOR / "VENDORED.md").read_text().splitlines()]
    listed = {row["file"]: row for row in rows if row}

    assert set(listed) == {path.name for path in VENDOR.glob("*.js")} == {path.name for path in VENDORED}
    for name, row in listed.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == row["hash"]
        assert "Permission is hereby granted, free of charge" in (VENDOR / row["licence"]).read_text(encoding="utf-8")


def test_no_script_ends_its_block_or_holds_what_html_would_change() -> None:
    for script in (*page.assets().vendored, page.assets().script, page.assets().early):
        assert "</script" not in script.lower()
        assert "<!--" not in script
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", script)


def test_our_scripts_and_styles_stay_readable() -> None:
    report = Path(page.__file__).parent / "assets"
    for path in (*ASSETS.iterdir(), *report.iterdir()):
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") <= 400
        assert text.startswith(("//", "/*")), f"{path.name} does not say what it is for"
