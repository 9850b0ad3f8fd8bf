"""The administration client that one object keeps: made at the first request, and again when it is outdated."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from tables.kafka.connection.live_settings import CREATES_NO_TOPICS, on_replaced, present


class KeptClient:
    """Thread-safe. A former client is kept for `keep_s`: one that is dropped gives no answer to requests under way."""

    def __init__(self, kafka: Mapping[str, Any], error_cb: Callable[[KafkaError], None], keep_s: float) -> None:
        """`kafka`: librdkafka client settings. When they are replaced, so is the client."""
        self._kafka = kafka
        self._error_cb = error_cb
        self._keep_s = keep_s
        self._lock = threading.Lock()
        self.made: AdminClient | None = None  #: None: the next request makes one
        self.former: AdminClient | None = None
        on_replaced(kafka, self._outdated)

    def get(self) -> AdminClient:
        """The client for the next request."""
        with self._lock:
            client = self.made
            if client is None:
                conf: dict[str, Any] = {
                    **CREATES_NO_TOPICS,
                    "log_level": 2,
                    **present(self._kafka),
                    "error_cb": self._error_cb,
                }
                client = self.made = AdminClient(conf)
            return client

    def close(self) -> None:
        """Drop all. A request under way may end without an answer."""
        self.made = self.former = None

    def _outdated(self) -> None:
        with self._lock:
            if self.made is None:
                return
            self.former, self.made = self.made, None
            # Not with the next request: there may be none, and an idle client would try for ever to connect with what
            # Kafka refuses by now.
            end = threading.Timer(self._keep_s, self._drop, [self.former])
        end.daemon = True
        end.start()

    def _drop(self, client: AdminClient) -> None:
        with self._lock:
            if self.former is client:
                self.former = None
