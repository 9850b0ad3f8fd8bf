"""Tests with processes of `app.observability`."""
