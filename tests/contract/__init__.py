"""One part against its port: no Kafka."""
