"""Reads the file of PENSTOCK_TOKENS: who may send events, and where to. That of PENSTOCK_CONSOLE_TOKENS has names and
sums only.

- name: shop
  sha256: 9f86d081884c7d65...          of the token
  channels: [default/orders]           NAMESPACE/NAME, or NAMESPACE/*
  brokers: [default/*]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from knative.contract.records import BROKER, CHANNEL
from knative.errors import UsageError
from web.ingress.senders import Sender, Senders

_SUM = re.compile(r"[0-9a-f]{64}", re.IGNORECASE | re.ASCII)
_TARGET = re.compile(r"(?P<namespace>[a-z0-9-]+)/(?P<name>\*|[a-z0-9.-]+)", re.ASCII)
#: What an entry may have, of the console and of senders.
CONSOLE_KEYS = ("name", "sha256")
KEYS = (*CONSOLE_KEYS, "channels", "brokers")
_FILE_BYTES_MAX = 16 * 1024 * 1024
_HINT = "Its form is in docs/how-to/secure-ingress.md."
_CONSOLE_HINT = "Its form is in docs/how-to/console.md."


def read_tokens(path: Path) -> Senders:
    """Returns the tokens of the file. Raises UsageError, which names the entry and what is wrong with it."""
    return Senders(_senders(path, KEYS, _HINT))


def read_names(path: Path) -> dict[bytes, str]:
    """Returns SHA-256 of each token of the console -> whose it is. Raises UsageError as `read_tokens`."""
    senders = _senders(path, CONSOLE_KEYS, _CONSOLE_HINT)
    return {token_sum: sender.name for token_sum, sender in senders.items()}


def _senders(path: Path, keys: Sequence[str], hint: str) -> dict[bytes, Sender]:
    senders, problems = parse_tokens(_entries(path, hint), keys)
    if problems:
        raise UsageError("\n".join(f"{path}: {problem}." for problem in problems), hint)
    return senders


def _entries(path: Path, hint: str) -> Any:
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
        if len(content) > _FILE_BYTES_MAX:
            raise UsageError(f"{path} is larger than {_FILE_BYTES_MAX} bytes.", hint)
        return yaml.load(content, yaml.CSafeLoader)
    except OSError as problem:
        raise UsageError(f"{path} cannot be read ({problem.strerror}).", hint) from problem
    except ValueError:
        # Of a date or a number, such as name: 2024-02-30.
        raise UsageError(f"{path} has a value that is not valid; put texts in quotes.", hint) from None
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise UsageError(f"{path} is not valid YAML{where}.", hint) from None  # its message may quote the file


def parse_tokens(entries: Any, keys: Sequence[str] = KEYS) -> tuple[dict[bytes, Sender], list[str]]:
    """Returns SHA-256 -> sender, and a sentence for each problem. `keys`: those that an entry may have."""
    if entries is None:
        return {}, ["it is empty; write [] for no tokens"]  # or it is just being written
    if not isinstance(entries, list):
        return {}, ["it is not a list of tokens"]
    senders: dict[bytes, Sender] = {}
    problems: list[str] = []
    for number, entry in enumerate(entries, 1):
        wrong = _problem(entry, keys)
        if wrong is None:
            summed = bytes.fromhex(entry["sha256"])
            wrong = "its sha256 is the same as that of an earlier token" if summed in senders else None
            senders.setdefault(summed, Sender(entry["name"], frozenset(_targets(entry))))
        if wrong is not None:
            problems.append(f"token {number}: {wrong}")
    return senders, problems


def _problem(entry: Any, keys: Sequence[str]) -> str | None:
    if not isinstance(entry, Mapping):
        return "it is not a mapping"
    if unknown := sorted(str(key) for key in entry.keys() - set(keys)):
        return f"{', '.join(unknown)[:64]} is not a known key; use {', '.join(keys)}"
    if not isinstance(entry.get("name"), str) or not entry["name"]:
        return "it has no name"
    if not isinstance(entry.get("sha256"), str) or not _SUM.fullmatch(entry["sha256"]):
        return "its sha256 is not 64 hexadecimal digits"
    for key in ("channels", "brokers"):
        listed = entry.get(key, [])
        if not isinstance(listed, list):
            return f"{key} is not a list"
        for target in listed:
            if not isinstance(target, str) or not _TARGET.fullmatch(target):
                return f"{str(target)[:64]!r} of {key} is not NAMESPACE/NAME or NAMESPACE/*"
    return None


def _targets(entry: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    kinds = (("channels", CHANNEL), ("brokers", BROKER))
    return [(kind, *target.split("/", 1)) for key, kind in kinds for target in entry.get(key, [])]
