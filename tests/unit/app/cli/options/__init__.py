"""Unit tests of `app.cli.options`."""
