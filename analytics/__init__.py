"""Analysis of stored events and results: Spark sessions, traffic counts, and the topology report.

Reads from Kafka and from files, after the fact. Nothing here is on the path of an event.
"""
