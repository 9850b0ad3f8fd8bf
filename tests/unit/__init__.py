"""Unit tests: no process, no Kafka; folders are those of the code."""
