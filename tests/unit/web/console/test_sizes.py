"""What a browser loads. Every page takes the scripts once, and keeps them."""

from __future__ import annotations

from web.console.assets import assets

SCRIPTS_MAX = 250_000  #: bytes, compressed: all scripts, with the map's
FIRST_VIEW_MAX = 50_000  #: bytes, compressed: what the overview needs


def test_all_scripts_together_are_small() -> None:
    sizes = {name: len(asset.compressed) for name, asset in assets().items() if name.endswith(".js")}

    assert {"cytoscape.min.js", "dagre.min.js", "map.js", "htmx.min.js", "console.js"} <= set(sizes)
    assert sum(sizes.values()) <= SCRIPTS_MAX, sizes


def test_first_view_takes_little() -> None:
    names = ("htmx.min.js", "idiomorph-ext.min.js", "sse.min.js", "console.js", "console.css", "icon.svg")

    assert sum(len(assets()[name].compressed) for name in names) <= FIRST_VIEW_MAX


def test_map_is_one_script_with_a_scope_of_its_own() -> None:
    text = assets()["map.js"].content.decode()

    assert text.startswith("(() => {")
    assert "function wholePath" in text
    assert "function follow" in text
