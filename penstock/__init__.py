"""Penstock's Python API."""
