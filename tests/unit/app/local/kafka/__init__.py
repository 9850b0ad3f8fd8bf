"""Unit tests of `app.local.kafka`."""
