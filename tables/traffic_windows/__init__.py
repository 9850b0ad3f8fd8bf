"""Traffic windows: a Faust table, and the reader of its changelog."""
