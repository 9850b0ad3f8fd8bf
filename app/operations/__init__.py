"""The operations behind the commands, without terminal output: lag, offsets, traffic, dead letters, topology."""
