"""The HTTP client of deliveries: a pool of connections for each subscriber, with limits on where they may go."""
