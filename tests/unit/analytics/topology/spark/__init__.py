"""Unit tests of `analytics.topology.spark`."""
