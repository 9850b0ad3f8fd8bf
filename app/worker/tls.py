"""TLS of both ports: a certificate and its key from files, which new connections use as soon as the files change."""

from __future__ import annotations

import ssl
from pathlib import Path

from knative.errors import UsageError


class ServerTls:
    """`context` stays the same object, and gets a new certificate by `use`."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises UsageError for files that are not a certificate and its key."""
        self.paths = (certificate, key)
        self.context = _context()
        self.use(self.read())

    def read(self) -> tuple[Path, Path]:
        """The files, which are good. Raises UsageError."""
        _load(_context(), self.paths)
        return self.paths

    def use(self, paths: tuple[Path, Path]) -> None:
        """Show the certificate to new connections. A context that fails half-way would have one of the two files, so
        `read` comes first. Raises UsageError."""
        _load(self.context, paths)


def _load(context: ssl.SSLContext, paths: tuple[Path, Path]) -> None:
    certificate, key = paths
    try:
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "reason", "") or getattr(problem, "strerror", "") or str(problem)
        raise UsageError(
            f"{certificate} and {key} are not a certificate and its private key ({reason}).",
            "Correct PENSTOCK_TLS_CERT and PENSTOCK_TLS_KEY: PEM files, and a key without a password.",
        ) from problem


def _context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    return context
