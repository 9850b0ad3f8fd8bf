"""The files that pages load: style sheet, scripts, icon. Their address has the hash of all of them, so that a browser
keeps them for a year and never has an old one."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from knative import topology_map

_HERE = Path(__file__).parent
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that pages load."""

    content: bytes
    compressed: bytes  #: by gzip
    content_type: str


@cache
def assets() -> dict[str, Asset]:
    """Returns the assets by name; they are read once, when the first page is asked for."""
    files = [path for folder in ("assets", "vendor") for path in sorted((_HERE / folder).iterdir())]
    files += [*topology_map.VENDORED, topology_map.STYLE]
    contents = {path: path.read_bytes() for path in files if path.suffix in _TYPES}
    # The map's script and the style sheet begin with what the report's page has too.
    map_script = _HERE / "assets" / "map.js"
    contents[map_script] = topology_map.script(map_script).encode()
    style = _HERE / "assets" / "console.css"
    contents[style] = topology_map.BASE.read_bytes() + contents[style]
    return {
        path.name: Asset(content, gzip.compress(content, 9, mtime=0), _TYPES[path.suffix])
        for path, content in contents.items()
    }


@cache
def digest() -> str:
    """Returns the digest of all files together."""
    whole = hashlib.sha256()
    for name, asset in assets().items():
        whole.update(f"{name}\0{len(asset.content)}\0".encode() + asset.content)
    return whole.hexdigest()[:16]


def asset_path(name: str) -> str:
    """Returns where a page finds the file of this name. Raises KeyError if there is none."""
    if name not in assets():
        raise KeyError(name)
    return f"/assets/{digest()}/{name}"
