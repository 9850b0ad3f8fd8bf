"""Unit tests of `analytics`."""
