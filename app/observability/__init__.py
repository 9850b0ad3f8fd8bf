"""Metrics, logs, traces, profiles, and the admin server that shows them."""
