"""The settings: their fields, where they are read, what contradicts what, and the reference page."""
