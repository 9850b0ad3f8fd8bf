"""Ingress: the view that accepts events, the resolver of their channels, and the answers."""
