"""The manifests as files; tests/cluster has them in an API server."""
