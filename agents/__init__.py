"""Delivery: one Faust agent per subscription, from its consumer group to its subscriber by HTTP.

    feed (thread, consumer group) -> batches -> channel -> agent -> window (lanes, slots) -> sender -> subscriber
                 ^                                                       |
                 +------ commits: watermark + metadata <-- settled ------+---> retries, replies, dead letters (tasks)

Refuses to know resources, topics' administration or the ingress: what to serve comes in as contract entries.
"""
