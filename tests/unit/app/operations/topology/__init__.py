"""Unit tests of `app.operations.topology`."""
