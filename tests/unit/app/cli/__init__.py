"""Unit tests of `app.cli`."""
