"""Requests to Kafka about topics, offsets and groups."""
