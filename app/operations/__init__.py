"""What operators ask for and do, without a terminal: lag, offsets, traffic, dead letters, the topology."""
