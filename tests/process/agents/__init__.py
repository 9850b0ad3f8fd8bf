"""Tests with threads of `agents`."""
