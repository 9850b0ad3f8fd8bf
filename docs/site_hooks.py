"""For the site: links that leave docs/ become text, decisions get a place in the menu, and a real report is an example.

MkDocs calls these functions; mkdocs.yml names this file.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
_DECISION = re.compile(r"decisions/\d{4}-.*\.md$")
_REPOSITORY = Path(__file__).parents[1]
#: The topology of the tests: a shop with a loop of replies and subscriptions without dead letters.
_REPORT = """
from analytics.topology.report.page import render
from tests.support.topologies import shop

print(render(shop()))
"""


def on_files(files: Any, config: Any) -> Any:
    """Put the decisions into the menu, in their order."""
    decisions = sorted(file.src_uri for file in files if _DECISION.match(file.src_uri))
    config.nav = [*config.nav, {"Decisions": decisions}]
    return files


def on_page_markdown(markdown: str, *, page: Any, files: Any, **_: Any) -> str:
    """Keep the text of a link to what the site does not have, such as a module, and drop the link."""
    here = posixpath.dirname(page.file.src_uri)

    def kept(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(here, match[2]))
        if target == "decisions":
            first = min(file.src_uri for file in files if _DECISION.match(file.src_uri))
            return f"[{match[1]}]({posixpath.relpath(first, here or '.')})"
        return match[0] if files.get_file_from_path(target) is not None else match[1]

    text = _LINK.sub(kept, markdown)
    if page.file.src_uri == "reference/report-page.md":
        text = text.replace("\n\n", "\n\n[Open an example of the page](../example-report.html){target=_blank}\n\n", 1)
    return text


def on_page_content(html: str, **_: Any) -> str:
    """In tables of Markdown a `|` is written with a backslash, which this parser keeps in code."""
    return html.replace("\\|", "|")


def on_post_build(config: Any) -> None:
    """Write the example that `reference/report-page.md` links to."""
    made = subprocess.run([sys.executable, "-c", _REPORT], cwd=_REPOSITORY, capture_output=True, text=True, check=True)
    (Path(config.site_dir) / "example-report.html").write_text(made.stdout, "utf-8")
