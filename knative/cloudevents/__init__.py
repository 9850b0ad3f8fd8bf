"""CloudEvents: attributes, and their HTTP, Kafka and JSON formats."""
