"""The demos of `make`: each prints one JSON object on its last line."""
