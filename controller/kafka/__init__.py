"""The controller's access to Kafka: topics, offsets, the contract, and leader election."""
