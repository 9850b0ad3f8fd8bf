"""The map of a topology in a browser: what the report page and the console share. Files only; no code imports another
part of the program.

    words.js   figures as text               graph.js  the whole graph       view.js  the part that is shown
    layout.js  where it stands (dagre)       map.js    drawn (Cytoscape)     panel.js, search.js, use.js  what people do

A page has the elements of `templates/stage.html`, the style sheets `assets/base.css` and `assets/map.css`, the vendored
scripts, and `script` with files of its own that call `load(data)` and `startUse(...)`.
"""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent
ASSETS, TEMPLATES, VENDOR = _HERE / "assets", _HERE / "templates", _HERE / "vendor"

VENDORED = (VENDOR / "cytoscape.min.js", VENDOR / "dagre.min.js")
BASE, STYLE = ASSETS / "base.css", ASSETS / "map.css"
#: In the order that they run.
SCRIPTS = tuple(ASSETS / f"{name}.js" for name in ("words", "graph", "view", "layout", "map", "panel", "search", "use"))


def script(*own: Path) -> str:
    """Returns the scripts of the map and then those of a page."""
    return in_scope(*SCRIPTS, *own)


def in_scope(*paths: Path) -> str:
    """Returns scripts, joined, in one scope of their own."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    return f'(() => {{\n"use strict";\n{text}}})();'
