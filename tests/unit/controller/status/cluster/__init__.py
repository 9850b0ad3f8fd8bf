"""Unit tests of `controller.status.cluster`."""
