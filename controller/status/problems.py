"""Logs each problem of the resources when it is found, and when it is solved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import structlog

from controller.kube.errors import ASK_DOCTOR
from controller.model import FileProblem, Trouble
from controller.status.interface import Sink
from knative import timefmt

log = structlog.get_logger(__name__)


def refused_writes(troubles: Iterable[Trouble]) -> tuple[FileProblem, ...]:
    """Returns the problems that finalizers and statuses cannot be written: one for all objects of a kind and reason."""
    groups: dict[tuple[str, str, str], list[Trouble]] = {}
    for trouble in troubles:
        if trouble.what in ("finalizer", "status"):
            kind = trouble.object.partition(" ")[0]
            groups.setdefault((trouble.what, kind, trouble.why), []).append(trouble)
    return tuple(_refused_write(what, kind, why, group) for (what, kind, why), group in sorted(groups.items()))


def _refused_write(what: str, kind: str, why: str, group: Sequence[Trouble]) -> FileProblem:
    first = min(group, key=lambda trouble: (trouble.since, trouble.object))
    more = f" and {len(group) - 1} more" if len(group) > 1 else ""
    text = f"of {first.object}{more} cannot be written (since {timefmt.in_seconds(first.since)}): {why}"
    return FileProblem(f"cluster {what} of {kind}", 0, "", text, f"the controller tries again; {ASK_DOCTOR}")


class ProblemLog:
    """The problems of the last scan."""

    def __init__(self, sink: Sink) -> None:
        """`sink`: stores them too."""
        self._sink = sink
        self._problems: tuple[FileProblem, ...] = ()

    async def report(self, problems: tuple[FileProblem, ...]) -> None:
        """Log what is new or gone, and store them all."""
        for problem in problems:
            if problem not in self._problems:
                log.warning(
                    _what_is_wrong(problem),
                    file=f"{problem.file}:{problem.line}" if problem.line else problem.file,
                    object=problem.object,
                    field=problem.field,
                    problem=problem.what,
                    hint=problem.hint,
                )
        fixed = {problem.file for problem in self._problems} - {problem.file for problem in problems}
        for file in sorted(fixed):
            from_cluster = file.startswith("cluster")
            solved = "the cluster can be read again" if from_cluster else "resource file is valid again, or was removed"
            log.info(solved, file=file)
        self._problems = problems
        try:
            await self._sink.write_problems(problems)
        except OSError as error:
            log.error("problems.json cannot be written", reason=str(error))


def _what_is_wrong(problem: FileProblem) -> str:
    if problem.file.startswith("cluster"):
        return "problem of the cluster"
    if problem.file == ".":
        return "problem of the resources directory"
    return (
        "problem in a resource file"
        if problem.ignored
        else "resource file was rejected; its last valid version is kept"
    )
