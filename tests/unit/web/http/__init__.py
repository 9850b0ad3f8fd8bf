"""Unit tests of `web.http`."""
