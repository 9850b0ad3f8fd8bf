"""Unit tests of `agents.dispatch`."""
