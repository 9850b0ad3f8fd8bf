"""What the controller and workers tell each other through compacted topics, and the names of topics and groups."""
