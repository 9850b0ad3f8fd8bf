"""State that is read from Kafka into memory: the contract, the workers' status, and (later) traffic windows.

Refuses to write: the controller publishes the contract, workers publish their status, through the `Produce` port.
"""
