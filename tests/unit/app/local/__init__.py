"""Unit tests of `app.local`."""
