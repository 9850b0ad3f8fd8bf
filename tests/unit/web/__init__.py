"""Unit tests of `web`."""
