"""Request headers that Knative Serving and proxies add. No event may have them."""

from __future__ import annotations

#: Each value occurs nowhere else.
PROXY_HEADERS = [
    ("Forwarded", "for=10.0.0.1;proto=http;host=forwarded.test"),
    ("X-Forwarded-For", "10.0.0.2, 10.0.0.3"),
    ("x-forwarded-host", "forwarded-host.test"),
    ("X-Forwarded-Proto", "https-of-the-proxy"),
    ("X-Forwarded-Port", "8443"),
    ("x-forwarded-client-cert", "By=spiffe://cluster.local/ns/a"),
    ("K-Network-Probe", "queue"),
    ("K-Network-Hash", "hash-of-the-network"),
    ("K-Proxy-Request", "activator"),
    ("K-Original-Host", "original-host.test"),
    ("K-Passthrough-Lb", "true-passthrough"),
    ("K-Kubelet-Probe", "kubelet"),
]
