"""Unit tests of `tables.traffic_windows`."""
