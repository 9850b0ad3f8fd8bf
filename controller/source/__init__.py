"""Where resources come from: a directory of YAML files."""
