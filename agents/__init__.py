"""Delivery: one reader per topic and one Faust agent per subscription, to its subscriber by HTTP.

    reader (thread) -> member -> channel -> agent -> scheduler (lanes, slots) -> connection pool -> subscriber
                          ^                              |
                          +-- commits <-------- settled -+---> retries, replies, dead letters (tasks)

The contract says what to serve. Resources, the administration of topics and the ingress are not known here.
"""
