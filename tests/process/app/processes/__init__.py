"""Tests with processes of `app.worker`."""
