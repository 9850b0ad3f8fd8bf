"""Topics of Kafka as tables in memory: the contract, the workers' status, and traffic windows."""
