"""Unit tests of `controller.source`."""
