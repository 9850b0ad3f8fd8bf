"""Tests with threads of `agents.fanout`."""
