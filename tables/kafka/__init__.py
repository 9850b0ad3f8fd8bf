"""Reading topics of Kafka: compacted topics as tables, and any topic from a point in time."""
