"""How clients connect to Kafka: secrets, and why Kafka refuses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Producers, and clients for administration, ask for the metadata of topics that they have used before. On a Kafka that
#: creates topics on demand, as Kafka does by default, they would bring removed ones back. Consumers do not by default.
CREATES_NO_TOPICS: Mapping[str, Any] = {"allow.auto.create.topics": False}
