"""Unit tests of `agents.ordering`."""
