"""Unit tests of `app.operations.export`."""
