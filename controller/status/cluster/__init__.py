"""Status and Kubernetes Events of resources in a cluster."""
