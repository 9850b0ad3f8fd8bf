"""Tests with processes of `controller.source.cluster`."""
