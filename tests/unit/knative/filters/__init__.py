"""Unit tests of `knative.filters`."""
