"""Kafka beside the data path: connections, administration, topics that are read from the beginning, and a lock."""
