"""Output of commands: tables, JSON, YAML, and pages that refresh."""
