"""Unit tests of `agents.offsets`."""
