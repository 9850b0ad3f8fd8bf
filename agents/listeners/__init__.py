"""What follows deliveries without deciding on them: log lines, spans, the last failures and snapshots."""
