"""Unit tests of `knative`."""
