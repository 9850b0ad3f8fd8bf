"""What the console does, without Kafka."""
