"""Unit tests of `knative.resources`."""
