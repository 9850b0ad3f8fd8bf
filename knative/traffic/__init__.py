"""Traffic as numbers that can be added: counters, changes of them, and sketches of latencies."""
