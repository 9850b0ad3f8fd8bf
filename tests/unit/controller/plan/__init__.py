"""Unit tests of `controller.plan`."""
