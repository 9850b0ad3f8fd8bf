"""HTTP in: the web drivers, the ingress view, health and subscriber status.

Modules here offer `register(app, ...)` and take a frozen config of their own and ports. They refuse to know a global
Faust app, the settings, or what stands behind a port (Kafka, metrics, the contract's topic).
"""
