"""Unit tests of `app.operations`."""
