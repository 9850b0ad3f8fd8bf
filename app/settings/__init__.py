"""The settings: their fields, their sources, checks across fields, and the reference page."""
