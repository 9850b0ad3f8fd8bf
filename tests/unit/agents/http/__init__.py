"""Unit tests of `agents.http`."""
