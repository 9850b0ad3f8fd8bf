"""Tests of `app.cli.options` that need the network."""
