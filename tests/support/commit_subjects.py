"""`python -m tests.support.commit_subjects` checks the subjects of the commits since the rules were made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from tests.support.processes import REPOSITORY

SUBJECT_MAX = 72  #: characters: what `git log --oneline` and a web page show without cutting
_FIRST = "da88a07f823a"  # the last commit before the rules
_LIMIT_S = 30.0


def problems_of(subject: str) -> list[str]:
    """What is wrong with the subject of a commit; empty if nothing is."""
    problems = []
    if len(subject) > SUBJECT_MAX:
        problems.append(f"has {len(subject)} characters, {len(subject) - SUBJECT_MAX} too many")
    if ";" in subject:
        problems.append('contains ";": make a commit of each thing')
    if subject.endswith("."):
        problems.append("ends with a full stop")
    return problems


def main(arguments: Sequence[str]) -> int:
    """Print each problem with its commit. Returns 1 if there is any. `arguments`: a range of commits instead."""
    if _git("rev-parse", "--git-dir").returncode:
        print("not a git checkout: no commits to check")
        return 0
    # A shallow clone lacks the first one: then the newest commit is checked.
    is_there = _git("merge-base", "--is-ancestor", _FIRST, "HEAD").returncode == 0
    which = arguments or ([f"{_FIRST}..HEAD"] if is_there else ["-1"])
    log = _git("log", "--no-merges", "--format=%h%x09%s", *which)
    if log.returncode:
        print(log.stderr.strip(), file=sys.stderr)
        return 2
    commits = [line.split("\t", 1) for line in log.stdout.splitlines()]
    problems = [f"{commit} {problem}: {subject}" for commit, subject in commits for problem in problems_of(subject)]
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=_LIMIT_S
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
