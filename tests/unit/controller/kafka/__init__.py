"""Unit tests of `controller.kafka`."""
