"""The parts of a worker process that no other package has: producer, lifecycle, watchdog, status, traffic."""
