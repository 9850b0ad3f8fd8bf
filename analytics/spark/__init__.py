"""Spark for the jobs: the session, its jars, what is shipped to executors, and Kafka as a source."""
