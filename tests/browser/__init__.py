"""The console as people use it: a real browser, workers and Kafka."""
