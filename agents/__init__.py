"""Delivery: one Faust agent per subscription, from its consumer group to its subscriber by HTTP.

    consumer (thread, group) -> batches -> channel -> agent -> scheduler (lanes, slots) -> connection pool -> subscriber
                 ^                                                       |
                 +-- commits: committable offset, metadata <-- settled --+---> retries, replies, dead letters (tasks)

The contract says what to serve. Resources, the administration of topics and the ingress are not known here.
"""
