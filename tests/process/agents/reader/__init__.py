"""Tests with threads of `agents.reader`."""
