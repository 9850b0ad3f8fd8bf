"""The Kafka side of a subscription: its consumer, rebalances, commits, backpressure and what watches over them."""
