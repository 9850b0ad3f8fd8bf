"""Unit tests of `analytics.spark`."""
