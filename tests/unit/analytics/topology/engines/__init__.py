"""Unit tests of `analytics.topology.engines`."""
