"""Which namespace `-n` and `-A` name; `--context` is in tests/process."""

from __future__ import annotations

import pytest

from app.cli.options.namespace import chosen_namespace
from knative.errors import UsageError


@pytest.mark.parametrize(
    ("namespace", "everywhere", "context", "chosen"),
    [
        ("", False, "", ""),
        ("orders", False, "", "orders"),
        ("orders", True, "shop", ""),
        ("", True, "shop", ""),
        ("billing", False, "unknown", "billing"),
    ],
)
def test_namespace_is_chosen_as_by_kubectl(namespace: str, everywhere: bool, context: str, chosen: str) -> None:
    assert chosen_namespace(namespace, everywhere, context) == chosen


@pytest.mark.parametrize("namespace", ["Orders", "a/b", "a b", "-a", "a" * 64])
def test_invalid_namespace_is_rejected(namespace: str) -> None:
    with pytest.raises(UsageError, match="is not a valid namespace name"):
        chosen_namespace(namespace, False, "")
