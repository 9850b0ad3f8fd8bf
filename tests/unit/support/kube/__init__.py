"""Tests of what asks and audits the API server."""
