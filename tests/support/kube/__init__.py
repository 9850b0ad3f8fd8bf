"""A real Kubernetes API server for tests, with etcd and the controller manager: build, start, ask, and audit it."""
