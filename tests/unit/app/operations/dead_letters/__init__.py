"""Unit tests of `app.operations.dead_letters`."""
