"""Unit tests of `app.cli.output`."""
