"""The parts of a worker process that no other package has: lifecycle, producer, secrets, traffic, watchdog."""
