"""Observability: alert rules and dashboards by the programs of Prometheus; `make test-observe`."""
