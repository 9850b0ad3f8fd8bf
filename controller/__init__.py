"""The control plane: objects in, actions out, then acted upon: topics, start offsets, the contract, statuses.

`reconcile` decides and is pure; `service` is the shell that observes, asks it, acts and observes again. The data plane
meets it in the contract topic only. Refuses to be needed at run time: workers serve on without it.
"""
