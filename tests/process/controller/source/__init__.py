"""Tests with processes of `controller.source`."""
