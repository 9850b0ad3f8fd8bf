"""Implementations that come with the benchmark; each is a folder as benchmarks/README.md describes."""
