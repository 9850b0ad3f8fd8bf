"""Unit tests of `agents`."""
