"""Shows for people what a filter says about an event: the output of `penstock explain`."""

from __future__ import annotations

from collections.abc import Mapping

from app.cli.output.format import escaped
from knative.contract.explanation import MARKS, Explanation, order, reason, tree


def as_lines(explanation: Explanation, marks: Mapping[bool | None, str] = MARKS) -> list[str]:
    """Returns the verdict, the parts as a tree, and the order key."""
    lines = [f"{explanation.trigger} {reason(explanation)}"]
    if explanation.parts:
        lines += ["", *tree(explanation.parts, marks)]
    lines += ["", f"order: {order(explanation)}"]
    return [escaped(line) for line in lines]
