"""Engines that answer questions about the graph: in this process, or on Spark with GraphFrames."""
