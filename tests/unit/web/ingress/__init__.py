"""Unit tests of `web.ingress`."""
