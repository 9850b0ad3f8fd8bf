"""The rules of a delivery: retries, backoff, order, and what an answer means."""
