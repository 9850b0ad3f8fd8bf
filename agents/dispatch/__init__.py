"""Delivers events to one subscriber: attempts, ordered retries, replies and dead letters."""
