"""What answers questions about the graph: in this process, or with GraphFrames on Spark."""
