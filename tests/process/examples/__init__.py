"""Tests with processes of the examples."""
