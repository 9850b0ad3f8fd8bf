"""Tests with processes of `app.local.kafka`."""
