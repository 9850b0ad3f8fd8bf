"""Reads how to connect to a secured Kafka from a folder: a mounted Secret, or files on a laptop.

Each key of the Secret is a file. The keys are those of Knative's Kafka Broker, and the older names of its channels:

    protocol          PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; without it, what the other keys need
    sasl.mechanism    PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; also saslType, sasltype
    user, password    for PLAIN and SCRAM; also username
    ca.crt            certificates of the authorities that sign the brokers' certificates; without it, the machine's
    user.crt, user.key  the client's certificate and its private key (mTLS)
    tls.enabled       true: TLS even without a certificate here
    sasl.oauthbearer.token.endpoint.url, .client.id, .client.secret, .scope, .extensions
"""

from __future__ import annotations

import itertools
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path

from knative.errors import UsageError
from tables.file_signatures import read_together
from tables.kafka.connection.memory_file import MemoryFile

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_OAUTH = "sasl.oauthbearer."
_OAUTH_KEYS = tuple(
    f"{_OAUTH}{name}" for name in ("token.endpoint.url", "client.id", "client.secret", "scope", "extensions")
)
_OAUTH_NEEDS = _OAUTH_KEYS[:3]
#: Key -> the names that it is read by, the first one that is there.
_NAMES = {
    "protocol": ("protocol",),
    "mechanism": ("sasl.mechanism", "saslType", "sasltype"),
    "user": ("user", "username"),
    "password": ("password",),
    "tls": ("tls.enabled",),
}
_AUTHORITIES, _CERTIFICATE, _KEY = "ca.crt", "user.crt", "user.key"
_HINT = "Its keys are in docs/how-to/secure-kafka.md."
_FILES = {_AUTHORITIES: "ssl.ca.location", _CERTIFICATE: "ssl.certificate.location", _KEY: "ssl.key.location"}


class Hidden(str):
    """A text that is not shown where an object that holds it is shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'(hidden)'"


def client_settings(secret: Mapping[str, str], folder: Path) -> tuple[dict[str, str], list[str]]:
    """Returns librdkafka settings for the keys of a Secret whose files are in `folder`, and what is wrong with it."""
    values = {key: next((secret[name] for name in names if secret.get(name)), "") for key, names in _NAMES.items()}
    tls, sasl = _tls_and_sasl(secret, values)
    problems = []
    protocol = values["protocol"].strip().upper() or ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT")
    if protocol not in _PROTOCOLS:
        return {}, [f"protocol is not {_one_of(_PROTOCOLS)}"]
    settings = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        settings |= {setting: str(folder / name) for name, setting in _FILES.items() if secret.get(name)}
        if bool(secret.get(_CERTIFICATE)) != bool(secret.get(_KEY)):
            problems.append(f"{_CERTIFICATE} and {_KEY} belong together, but the secret has only one of the two")
    elif tls:
        problems.append(f"protocol is {protocol}, which has no TLS, but the secret has tls.enabled or a certificate")
    if protocol.startswith("SASL"):
        of_sasl, wrong = _sasl(secret, values)
        settings |= of_sasl
        problems += wrong
    return settings, problems


def _tls_and_sasl(secret: Mapping[str, str], values: Mapping[str, str]) -> tuple[bool, bool]:
    """Returns whether a Secret without `protocol` is for TLS, and whether for SASL."""
    tls = values["tls"].strip().lower() == "true" or any(secret.get(name) for name in _FILES)
    return tls, bool(values["mechanism"] or values["user"] or any(secret.get(name) for name in _OAUTH_KEYS))


def _sasl(secret: Mapping[str, str], values: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    mechanism = values["mechanism"].strip().upper() or "PLAIN"
    if mechanism not in _MECHANISMS:
        return {}, [f"sasl.mechanism is not {_one_of(_MECHANISMS)}"]
    settings = {"sasl.mechanism": mechanism}
    if mechanism != "OAUTHBEARER":
        settings |= {"sasl.username": values["user"].strip(), "sasl.password": Hidden(values["password"])}
        return settings, [f"{mechanism} needs {key}" for key in ("user", "password") if not values[key]]
    settings["sasl.oauthbearer.method"] = "oidc"
    settings |= {key: Hidden(secret[key].strip()) for key in _OAUTH_KEYS if secret.get(key)}
    return settings, [f"{mechanism} needs {key}" for key in _OAUTH_NEEDS if not secret.get(key)]


def _one_of(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}"


def paths(folder: Path) -> list[Path]:
    """Returns the files that a Secret may have."""
    return [folder / name for name in (*itertools.chain(*_NAMES.values()), *_FILES, *_OAUTH_KEYS)]


def read_secret(folder: Path) -> dict[str, str]:
    """Returns librdkafka settings for the Secret that is mounted at `folder`. Raises UsageError, which names what to
    fix, and never shows a value."""
    return secret_settings(read_keys(folder), folder)


def read_keys(folder: Path) -> dict[str, str]:
    """Returns key -> value, all of one moment. Raises UsageError."""
    return read_together(paths(folder), lambda: _read_keys(folder))


def _read_keys(folder: Path) -> dict[str, str]:
    secret: dict[str, str] = {}
    problems: list[str] = []
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}, which PENSTOCK_KAFKA_SECRET names.", _HINT)
    for path in paths(folder):
        try:
            if path.is_file():
                secret[path.name] = path.read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as problem:
            problems.append(f"{path.name} cannot be read ({getattr(problem, 'strerror', 'it is not UTF-8')})")
    if not secret and not problems:
        problems.append("it has no key of a Kafka secret")
    if problems:
        raise SecretNotValid(folder, problems)
    return secret


def secret_settings(secret: Mapping[str, str], folder: Path, *, in_memory: bool = False) -> dict[str, str]:
    """Returns librdkafka settings for the keys that `read_keys` found. `in_memory`: they name copies of the
    certificates, so that what happens to the folder later does not matter. Raises UsageError."""
    settings, problems = client_settings(secret, folder)
    if in_memory:
        names = {name: setting for name, setting in _FILES.items() if setting in settings}
        settings |= {setting: MemoryFile(f"{secret[name]}\n".encode()) for name, setting in names.items()}
    problems = problems or _of_files(settings)
    if problems:
        raise SecretNotValid(folder, problems)
    return settings


class SecretNotValid(UsageError):
    """A Secret that cannot be used as it is. `problems`: what is wrong with it, without its folder."""

    def __init__(self, folder: Path, problems: Iterable[str]) -> None:
        self.problems = "; ".join(problems)
        super().__init__(f"The Kafka secret in {folder} is not valid: {self.problems}.", _HINT)


def _of_files(settings: Mapping[str, str]) -> list[str]:
    """Returns what is wrong with the certificates and keys. Kafka's clients would say only that they failed."""
    problems = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authorities := settings.get("ssl.ca.location"):
        try:
            context.load_verify_locations(authorities)
        except ssl.SSLError:
            problems.append(f"{_AUTHORITIES} does not contain certificates in the PEM format")
    if "ssl.certificate.location" in settings and "ssl.key.location" in settings:
        try:
            context.load_cert_chain(settings["ssl.certificate.location"], settings["ssl.key.location"], password="")
        except ssl.SSLError:
            problems.append(f"{_CERTIFICATE} and {_KEY} are not a certificate and its private key in the PEM format")
    return problems
