"""Writes the status of resources: to files, and to the status topic."""
