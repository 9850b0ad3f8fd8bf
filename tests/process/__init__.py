"""Tests that start a process or a thread that waits, and need no Kafka; folders as those of the code."""
