"""Tests with processes of `app.cli`."""
