"""Tests with a real Kubernetes API server (tests/support/kube): `make test-cluster`."""
