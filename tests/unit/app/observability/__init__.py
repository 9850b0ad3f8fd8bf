"""Unit tests of `app.observability`."""
