"""Unit tests of `knative.traffic`."""
