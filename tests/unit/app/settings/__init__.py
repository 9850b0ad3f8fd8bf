"""Unit tests of `app.settings`."""
