"""Unit tests of `agents.fanout`."""
