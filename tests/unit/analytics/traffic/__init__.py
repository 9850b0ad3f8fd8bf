"""Unit tests of `analytics.traffic`."""
