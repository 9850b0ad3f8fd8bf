"""Tests with processes of `controller`."""
