"""Where resources come from: a directory of YAML files, or a cluster."""
