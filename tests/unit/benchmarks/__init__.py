"""Unit tests of `benchmarks`."""
