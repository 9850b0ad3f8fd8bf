"""Tests of `benchmarks` with threads and processes."""
