"""Tests with processes of `analytics.spark`."""
