"""The ledger: what happened in a run as facts, one JSON line each, and the checker that judges them.

Sender, subscriber and an outside Kafka reader write facts; nothing the worker says of itself is evidence.
"""
