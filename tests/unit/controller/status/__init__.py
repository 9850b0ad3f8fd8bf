"""Unit tests of `controller.status`."""
