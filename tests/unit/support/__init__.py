"""Unit tests of `tests.support`."""
