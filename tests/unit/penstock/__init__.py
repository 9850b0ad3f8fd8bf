"""Unit tests of `penstock`."""
