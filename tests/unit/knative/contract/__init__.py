"""Unit tests of `knative.contract`."""
