"""Tests with processes of `analytics.topology`."""
