"""Unit tests of `knative.cloudevents`."""
