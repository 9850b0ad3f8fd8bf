"""What follows a delivery: its log lines, its spans, the last failures and the numbers of the moment."""
