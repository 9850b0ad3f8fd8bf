"""Unit tests of `controller.source.cluster`."""
