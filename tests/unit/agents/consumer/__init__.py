"""Unit tests of `agents.consumer`."""
