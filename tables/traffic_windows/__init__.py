"""Traffic by windows of time: a Faust table, and what is shown of it."""
