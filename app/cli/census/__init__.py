"""`penstock census`."""
