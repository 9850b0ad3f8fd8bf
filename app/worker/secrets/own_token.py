"""The file of PENSTOCK_OWN_TOKEN: the bearer token that dispatchers send to the installation's own ingress."""

from __future__ import annotations

import re
from pathlib import Path

from agents.http.own_ingress import OwnIngress
from app.settings.load import Settings
from app.worker.secrets.file_watch import FileWatch
from knative.errors import UsageError
from tables.kafka.connection.secret import Hidden
from web.ingress.senders import TOKEN_BYTES_MAX

_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")  # RFC 6750
_HINT = "Write into this file the token that `penstock token` shows, and nothing else."


def read_own_token(path: Path) -> Hidden:
    """Returns the token in the file. Raises UsageError, which never shows what the file has."""
    try:
        with path.open("rb") as file:
            token = file.read(TOKEN_BYTES_MAX + 1).strip()
    except OSError as problem:
        raise UsageError(
            f"{path}, which PENSTOCK_OWN_TOKEN names, cannot be read ({problem.strerror}).", _HINT
        ) from None
    if len(token) > TOKEN_BYTES_MAX or not _TOKEN.fullmatch(token):
        what = "is empty" if not token else "does not contain one bearer token"
        raise UsageError(f"{path}, which PENSTOCK_OWN_TOKEN names, {what}.", _HINT)
    return Hidden(token.decode("ascii"))


def own_ingress(settings: Settings) -> tuple[OwnIngress, FileWatch[Hidden]] | None:
    """Returns the ingress with its token, and what follows the file; None without the setting. Raises UsageError."""
    if not settings.own_token:
        return None
    path, own = Path(settings.own_token.removeprefix("file:")), OwnIngress(settings.ingress_url)
    return own, FileWatch("PENSTOCK_OWN_TOKEN", [path], lambda: read_own_token(path), own.use)
