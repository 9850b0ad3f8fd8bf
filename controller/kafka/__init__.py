"""What the controller does in Kafka: topics, offsets, the contract, and the election of a leader."""
