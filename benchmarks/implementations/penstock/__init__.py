"""Penstock as an implementation: `prepare` writes the contract by a controller, the two commands are workers."""
