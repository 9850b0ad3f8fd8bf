"""Reads the input of the topology report from a running Kafka, and writes the files of the report."""
