"""The HTTP server: the web drivers, ingress, and pages such as health and subscriber status.

Each view has a `register(app, ...)` that takes a frozen config and ports. Modules here do not use a global Faust app,
the settings, Kafka or Prometheus.
"""
