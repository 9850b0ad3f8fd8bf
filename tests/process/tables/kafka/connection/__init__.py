"""Tests with processes of `tables.kafka`."""
