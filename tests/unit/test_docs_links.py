"""The Markdown files name only what exists: links, headings, modules and, in the tour, classes and functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FOLDERS = (
    *("knative", "tables", "agents", "web", "controller", "analytics", "penstock", "app"),
    *("docs", "examples", "tests", "benchmarks", ".github"),
)
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(page for folder in FOLDERS for page in sorted((ROOT / folder).rglob("*.md"))),
]
#: What a run writes; it is not in the repository.
WRITTEN_BY_RUNS = ("benchmarks/results",)

_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")
_HEADING = re.compile(r"^#+ +(.+?)\s*$", re.MULTILINE)
_PATH = re.compile(rf"(?:{'|'.join(map(re.escape, FOLDERS))})/[\w./-]+")
_STEP = re.compile(r"^(?:\d+\.|-) \[[^\]]+\]\(([^)]+\.py)\)((?:,? `[\w.]+`)*)", re.MULTILINE)


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _prose(page: Path) -> str:
    """The page without its blocks of code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def _anchors(page: Path) -> set[str]:
    """The ids that hosts of Markdown make of headings: lower case, dashes for spaces, no punctuation."""
    headings = _HEADING.findall(_prose(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _dead_links(page: Path) -> Iterator[str]:
    for link in _LINK.findall(_CODE.sub("`code`", _prose(page))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in _anchors(target)):
            yield link


def _missing_paths(page: Path) -> Iterator[str]:
    for code in _CODE.findall(_prose(page)):
        if not _PATH.fullmatch(code) or code.startswith(WRITTEN_BY_RUNS):
            continue
        path = ROOT / code
        if not (path.exists() or path.with_name(f"{path.name}.py").exists()):
            yield code


def _definitions(module: Path) -> set[str]:
    """Classes, functions, and methods as `Class.method`."""
    names = set()
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            members = (stmt for stmt in node.body if isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef)))
            names.update(f"{node.name}.{member.name}" for member in members)
    return names


def _unknown_names(page: Path) -> Iterator[str]:
    for link, names in _STEP.findall(page.read_text(encoding="utf-8")):
        definitions = _definitions(page.parent / link)
        yield from (f"{link}: {name}" for name in _CODE.findall(names) if name not in definitions)


def test_links_lead_to_files_and_headings() -> None:
    assert [f"{_name(page)}: {link}" for page in PAGES for link in _dead_links(page)] == []


def test_modules_and_folders_exist() -> None:
    assert [f"{_name(page)}: {path}" for page in PAGES for path in _missing_paths(page)] == []


def test_tour_names_classes_and_functions_that_exist() -> None:
    tour = ROOT / "docs" / "explanation" / "tour.md"

    assert len(_STEP.findall(tour.read_text(encoding="utf-8"))) > 20
    assert not list(_unknown_names(tour))


def test_faults_are_found(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("class A:\n    def b(self): ...\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# One & two\n[a](#one--two) [b](#three) [c](no.md) `agents/nothing` `agents/dispatch` `x/y`\n"
        "```\n[d](no.md) `agents/nothing`\n```\n1. [code.py](code.py) `A.b`, `A.c`: does\n"
    )

    assert list(_dead_links(page)) == ["#three", "no.md"]
    assert list(_missing_paths(page)) == ["agents/nothing"]
    assert list(_unknown_names(page)) == ["code.py: A.c"]


def test_each_decision_has_a_number_of_its_own() -> None:
    """The same in its file name and in its heading, without gaps."""
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    assert [page.name for page in pages if not page.read_text().startswith(f"# {int(page.name[:4])}. ")] == []
