"""Pages for people and probes: health, subscribers, traffic."""
