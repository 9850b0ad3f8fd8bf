"""TLS of both ports: a certificate and its key from files, which new connections use as soon as the files change."""

from __future__ import annotations

import ssl
from pathlib import Path

from knative.errors import UsageError
from tables.file_signatures import read_together
from tables.kafka.connection.memory_file import MemoryFile


class ServerTls:
    """`context` stays the same object, and gets a certificate by `use`."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Reads nothing yet."""
        self.paths = (certificate, key)
        self.context = _context()

    def read(self) -> bytes:
        """Returns what the files contain, which fits together. Raises UsageError."""
        certificate, key = self.paths
        try:
            return read_together(self.paths, self._read)
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "reason", "") or getattr(problem, "strerror", "") or str(problem)
            raise UsageError(
                f"{certificate} and {key} are not a certificate and its private key ({reason}).",
                "Correct PENSTOCK_TLS_CERT and PENSTOCK_TLS_KEY: PEM files, and a key without a password.",
            ) from problem

    def _read(self) -> bytes:
        certificate, key = self.paths
        both = key.read_bytes() + b"\n" + certificate.read_bytes()
        _load(_context(), both)
        return both

    def use(self, both: bytes) -> None:
        """Show the certificate of `read` to new connections."""
        _load(self.context, both)


def _load(context: ssl.SSLContext, both: bytes) -> None:
    # The files may change at any time, and a context that fails half-way would have one of the two. OpenSSL wants a
    # file. Without a password, it would ask for that of an encrypted key at the terminal, and wait.
    context.load_cert_chain(MemoryFile(both), password="")


def _context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    return context
