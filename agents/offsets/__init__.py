"""What a process knows of the partitions of a subscription: which offsets are settled, committed, or lost and kept."""
