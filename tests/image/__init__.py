"""Images: built from Debian packages, and run with as few rights as in a cluster."""
