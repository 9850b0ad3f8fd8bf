"""Unit tests of `examples.census`."""
