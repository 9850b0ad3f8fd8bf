"""Unit tests of `analytics.census`."""
