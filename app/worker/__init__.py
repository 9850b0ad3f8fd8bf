"""The parts of a worker process that belong to no other package: producer, life cycle, watchdog, status, traffic."""
