"""Unit tests of `analytics.topology`."""
