"""Writes the status of resources: to files or to the API server, and to the status topic."""
