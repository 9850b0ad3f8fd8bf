"""The control plane: makes topics, start offsets, the contract and statuses from the resources that people write.

`plan/reconcile` decides and is pure; `service` observes, asks it, acts and observes again. The data plane only reads
the contract topic, so workers go on delivering without a controller.
"""
