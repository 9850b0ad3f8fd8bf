"""Parts against the embedded Kafka and Spark."""
