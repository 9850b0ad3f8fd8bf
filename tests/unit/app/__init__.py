"""Unit tests of `app`."""
