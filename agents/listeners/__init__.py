"""What follows deliveries without deciding on them: log, metrics, traffic, spans, the last failures."""
