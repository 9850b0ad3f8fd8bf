"""The records that the controller and workers exchange through compacted topics, and the names of topics and groups."""
