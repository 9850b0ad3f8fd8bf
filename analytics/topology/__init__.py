"""The map of who sends what to whom: vertices and edges from contract, statuses and traffic, and what is wrong."""
