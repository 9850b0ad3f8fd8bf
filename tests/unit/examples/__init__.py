"""Unit tests of the examples."""
