"""Tests with processes of `penstock`."""
