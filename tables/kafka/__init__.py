"""Readers of Kafka topics."""
