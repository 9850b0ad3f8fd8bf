"""Resources from the API server of a cluster: lists, watches, finalizers."""
