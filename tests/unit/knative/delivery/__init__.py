"""Unit tests of `knative.delivery`."""
