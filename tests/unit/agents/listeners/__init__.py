"""Unit tests of `agents.listeners`."""
