"""How commands print: tables, JSON, YAML, and pages that refresh."""
