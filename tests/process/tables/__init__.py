"""Tests with processes of `tables`."""
