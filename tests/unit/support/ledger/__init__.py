"""Unit tests of `tests.support.ledger`."""
