"""No core dumps of processes that read credentials: a dump has all of their memory, and often stays on a disk for long.

The soft limit becomes 1, not 0. A file of one byte is too short for the kernel, which then writes none; and where
`kernel.core_pattern` pipes dumps into a program, the kernel ignores every other limit, even 0. The hard limit stays, so
a child process may raise its own.
"""

from __future__ import annotations

import resource

from app.settings.fields import Settings


def prevent_core_dumps(settings: Settings) -> None:
    """Leave no core dumps, of this process and its children, if it reads credentials; not with PENSTOCK_DEBUG."""
    if settings.debug or not reads_credentials(settings):
        return
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if hard != 0:  # else it is 0 already, and only an administrator can raise it
        resource.setrlimit(resource.RLIMIT_CORE, (1, hard))


def reads_credentials(settings: Settings) -> bool:
    """Returns whether there are any: for Kafka, for the ports, of senders, for subscribers, or for an API server."""
    files = (settings.kafka_secret, settings.kafka_secrets, settings.tls_key, settings.tokens, settings.own_token)
    return any(files) or settings.namespaces is not None
