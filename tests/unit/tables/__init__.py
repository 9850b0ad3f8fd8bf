"""Unit tests of `tables`."""
