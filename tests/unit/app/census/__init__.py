"""Unit tests of `app.census`."""
