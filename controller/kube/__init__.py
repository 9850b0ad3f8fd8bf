"""The API server of a Kubernetes cluster: requests, and the election of a leader by a Lease."""
