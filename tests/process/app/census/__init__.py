"""Tests with processes of `app.census`."""
