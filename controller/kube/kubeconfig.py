"""Says what is wrong with a kubeconfig, before the client library reads it. Shows nothing of its content but names."""

from __future__ import annotations

import os
from typing import Any

import yaml

from knative.errors import UsageError

_WHICH = "Set KUBECONFIG or PENSTOCK_KUBECONFIG to a kubeconfig, or run in a pod with a ServiceAccount."
_CONTEXT = "Set --context or PENSTOCK_KUBE_CONTEXT"


def check_kubeconfig(paths: str, context: str = "") -> None:
    """Raises UsageError. `paths`: as in KUBECONFIG, of which one is enough; `context`: "" = the current one."""
    files = [_read(path) for entry in paths.split(os.pathsep) if os.path.exists(path := os.path.expanduser(entry))]
    if not files:
        raise UsageError(f"There is no kubeconfig {paths}.", _WHICH)
    names = [str(entry["name"]) for content in files for entry in _contexts(content)]
    name = context or next((str(file["current-context"]) for file in files if file.get("current-context")), "")
    if name in names:
        return
    what = f"no context {name!r}" if name else "no current context"
    hint = f"{_CONTEXT} to one that it has: {', '.join(names)}." if names else _WHICH
    raise UsageError(f"The kubeconfig {paths} has {what}.", hint)


def not_valid(paths: str, problem: Exception) -> UsageError:
    """Returns the error for what the client library found."""
    return UsageError(f"The kubeconfig {paths} is not valid: {problem}.", _WHICH)


def _contexts(content: dict[str, Any]) -> list[dict[str, Any]]:
    value = content.get("contexts")
    return [entry for entry in value if isinstance(entry, dict) and "name" in entry] if isinstance(value, list) else []


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            content = yaml.safe_load(file)
    except OSError as problem:
        raise UsageError(f"The kubeconfig {path} cannot be read: {problem.strerror}.", _WHICH) from problem
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise UsageError(f"The kubeconfig {path} is not valid YAML{where}.", _WHICH) from problem
    if not isinstance(content, dict):
        raise UsageError(f"{path} is not a kubeconfig.", _WHICH)
    return content
