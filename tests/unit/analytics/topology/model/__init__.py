"""Unit tests of `analytics.topology.model`."""
