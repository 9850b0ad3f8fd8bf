"""Kafka and the network fail in every way we can think of, under load, and the ledger's checker judges: `make chaos`.

Short forms of the same failures are in `tests/system/test_chaos_*`.
"""
