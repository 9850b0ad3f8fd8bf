"""The HTTP client of deliveries: a connection pool for each destination, with a guard on where it may connect."""
