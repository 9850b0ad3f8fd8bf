"""How records get into Kafka: the producer of a process, its clients and what becomes of a rejected batch."""
