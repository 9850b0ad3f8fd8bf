"""Unit tests of `app.cli.demos`."""
