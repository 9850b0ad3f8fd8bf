"""Unit tests of `agents.reader`."""
