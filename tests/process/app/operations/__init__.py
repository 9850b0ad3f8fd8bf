"""Parts of commands and of the console, without Kafka."""
