"""Unit tests of `app.operations.doctor`."""
