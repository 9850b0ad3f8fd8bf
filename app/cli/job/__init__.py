"""`penstock job`."""
