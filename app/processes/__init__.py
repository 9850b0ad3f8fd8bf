"""Several worker processes by one command: a supervisor forks them, and starts again what ends."""
