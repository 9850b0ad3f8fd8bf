"""Unit tests of `knative.cesql`."""
