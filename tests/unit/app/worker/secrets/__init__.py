"""Unit tests of `app.worker`."""
