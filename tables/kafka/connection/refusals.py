"""Says why a secured Kafka does not let a client in, and what to correct.

librdkafka reports refused passwords, but only that "the certificate could not be verified", and nothing at all when a
client without TLS talks to a listener with TLS. So a TLS handshake of our own (`probe`) finds out about certificates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from tables.kafka.connection.probe import handshake_problem
from tables.kafka.errors import KafkaUnavailable, unreachable

_PASSWORD = re.compile(r"invalid credentials|Invalid username or password", re.IGNORECASE)
_MECHANISMS = re.compile(r"broker's supported mechanisms: ?(?P<list>[\w,-]*)")
_ALERT = re.compile(r"alert (?P<name>[a-z ]+): SSL alert")
_CERTIFICATE = re.compile(r"certificate|unknown ca")
_NO_CERTIFICATE = frozenset({"bad certificate", "certificate required", "handshake failure"})


class Refusals:
    """What the brokers refused one client. Its callback belongs into the settings of the client. Thread-safe."""

    def __init__(self, kafka: Mapping[str, Any]) -> None:
        """`kafka`: librdkafka client settings."""
        self._kafka = kafka
        self._last: str | None = None

    def callback(self, error: KafkaError) -> None:
        """The client calls this as `error_cb`."""
        self._last = refused(error.code(), error.str()) or self._last

    def reported(self, client: Any) -> str | None:
        """Returns why the brokers refused `client` since the last call, with a hint; None if they did not."""
        client.poll(0)
        last, self._last = self._last, None
        return last

    def unreachable(self, client: Any, error: KafkaException) -> KafkaUnavailable:
        """Returns the exception for a Kafka that has not answered `client`. When the client does not know why it was
        refused, a handshake may show it. Blocks for some seconds at most."""
        bootstrap = str(self._kafka.get("bootstrap.servers", ""))
        refused = self.reported(client) or handshake_problem(self._kafka)
        return unreachable(bootstrap, refused, "") if refused else unreachable(bootstrap, error.args[0].str())


def refused(code: int, text: str) -> str | None:
    """Returns the reason and a hint for an error that librdkafka reports; None if it is not about security."""
    if code == KafkaError._AUTHENTICATION:
        if _PASSWORD.search(text):
            return "Kafka does not accept this user and password; correct user and password of the Kafka secret"
        if match := _MECHANISMS.search(text):
            if match["list"]:
                return f"this listener supports {match['list']}; correct sasl.mechanism of the Kafka secret"
            return "this listener does not use SASL; correct protocol of the Kafka secret"
        return f"Kafka does not accept these credentials: {_short(text)}"
    if match := _ALERT.search(text):
        if match["name"] in _NO_CERTIFICATE:
            return "this listener requires a client certificate; add user.crt and user.key to the Kafka secret"
        if not _CERTIFICATE.search(match["name"]):
            return f"Kafka ended the TLS handshake ({match['name']})"
        return (
            f"Kafka does not accept user.crt of the Kafka secret ({match['name']}); it must not have expired, and the "
            "brokers must trust the authority that signed it"
        )
    return None


def _short(text: str) -> str:
    """Returns the text without the address, and without how long it took."""
    return re.sub(r"^\S+://\S+: | \(after .*", "", text)
