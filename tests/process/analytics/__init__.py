"""Tests with processes of `analytics`."""
