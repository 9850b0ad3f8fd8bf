"""Exported objects as YAML: one text, or a file for each object, of which none is overwritten unless asked to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from app.operations.export.documents import Exported
from knative.errors import PenstockError, UsageError, os_reason

#: Readers of YAML 1.1 and 1.2 take it for the same text without quotes.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9/._-]*(:[A-Za-z0-9/._-]+)*", re.ASCII)
#: Line ends for YAML 1.1: in a block they would become other ones.
_OTHER_LINE_ENDS = re.compile("[\\r\\x85\\u2028\\u2029]")


class _Dumper(yaml.SafeDumper):
    """Block style without aliases; texts in quotes, unless all versions of YAML read them as texts."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    is_block = "\n" in value and not _OTHER_LINE_ENDS.search(value)
    style = "|" if is_block else None if _PLAIN.fullmatch(value) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def to_text(exported: Exported) -> str:
    """Returns one document, with its notes as comments above it."""
    comments = "".join(f"# {note}\n" for note in exported.notes)
    return comments + yaml.dump(dict(exported.document), Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)


def file_of(exported: Exported) -> Path:
    """Returns where an object is in a folder."""
    return Path(exported.namespace) / f"{exported.kind.lower()}-{exported.name}.yaml"


def write(documents: Iterable[Exported], folder: Path, *, force: bool) -> int:
    """Write all files; returns how many were not there as they are. Raises PenstockError, before anything is written,
    if files would be overwritten, and UsageError if the folder cannot be written."""
    texts = {folder / file_of(document): to_text(document) for document in documents}
    try:
        changed = {path: text for path, text in texts.items() if _content(path) != text}
        different = [str(path) for path in changed if os.path.lexists(path)]
        if different and not force:
            more = f" and {len(different) - 3} more" if len(different) > 3 else ""
            raise PenstockError(
                f"These files already exist with different content: {', '.join(different[:3])}{more}.",
                "Nothing was written. Choose another folder, or use --force to overwrite these files.",
            )
        for path, text in changed.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            # A directory that is being served must never show half a file.
            fresh = path.with_name(f".{path.name}.new")
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(path)
    except OSError as problem:
        raise UsageError(f"{folder} cannot be written: {os_reason(problem)}.", "Check --to.") from problem
    return len(changed)


def _content(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        return ""
