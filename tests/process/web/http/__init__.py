"""Tests with threads of `web`."""
