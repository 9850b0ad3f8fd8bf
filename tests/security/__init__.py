"""Raw requests that must not pass."""
