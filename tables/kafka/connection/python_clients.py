"""The same connection for Kafka clients that are not librdkafka: aiokafka, and with it Faust.

Does not translate settings of consumers and producers, only how to connect.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from typing import Any

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError

from knative.urls import shown_url
from tables.kafka.connection.probe import tls_context

_TOKEN_LIMIT_S = 10.0
_TOKEN_LIFE_S = 300.0  # of a token whose issuer does not say when it expires
_RENEWED_AT = 0.8  # of its life


def aiokafka_settings(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments of aiokafka's clients for librdkafka's settings. Reads the files of certificates."""
    protocol = str(kafka.get("security.protocol", "PLAINTEXT"))
    settings: dict[str, Any] = {"bootstrap_servers": str(kafka["bootstrap.servers"]), "security_protocol": protocol}
    if protocol.endswith("SSL"):
        settings["ssl_context"] = _tls(kafka)
    if not protocol.startswith("SASL"):
        return settings
    settings["sasl_mechanism"] = kafka["sasl.mechanism"]
    if kafka["sasl.mechanism"] == "OAUTHBEARER":
        return settings | {"sasl_oauth_token_provider": Tokens(kafka)}
    return settings | {"sasl_plain_username": kafka["sasl.username"], "sasl_plain_password": kafka["sasl.password"]}


def broker_settings(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """Returns how a Faust app connects: its arguments `broker` and `broker_credentials`."""
    url = "kafka://" + str(kafka["bootstrap.servers"]).replace(",", ";")
    return {"broker": url, "broker_credentials": _credentials(kafka)}


def _credentials(kafka: Mapping[str, Any]) -> Any:
    from faust.auth import OAuthCredentials, SASLCredentials, SSLCredentials

    settings = aiokafka_settings(kafka)
    context = settings.get("ssl_context")
    if not settings["security_protocol"].startswith("SASL"):
        return None if context is None else SSLCredentials(context)
    if "sasl_oauth_token_provider" in settings:
        return OAuthCredentials(oauth_cb=settings["sasl_oauth_token_provider"], ssl_context=context)
    return SASLCredentials(
        username=settings["sasl_plain_username"],
        password=settings["sasl_plain_password"],
        mechanism=settings["sasl_mechanism"],
        ssl_context=context,
    )


def _tls(kafka: Mapping[str, Any]) -> ssl.SSLContext:
    try:
        return tls_context(kafka)
    except OSError as problem:  # while the files are replaced
        raise KafkaConnectionError(f"the certificates for Kafka cannot be read ({problem.strerror})") from problem


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens of an OAuth 2.0 server for OAUTHBEARER, by client credentials as librdkafka asks for them (RFC 6749,
    section 4.4). One is used until it is about to expire. Any event loop may ask."""

    def __init__(self, kafka: Mapping[str, Any]) -> None:
        self._url = str(kafka["sasl.oauthbearer.token.endpoint.url"])
        self._client = str(kafka["sasl.oauthbearer.client.id"]), str(kafka["sasl.oauthbearer.client.secret"])
        self._scope = str(kafka.get("sasl.oauthbearer.scope", ""))
        self._extensions = str(kafka.get("sasl.oauthbearer.extensions", ""))
        self._token = ""
        self._good_until = 0.0  # monotonic

    async def token(self) -> str:
        """Returns the token. Raises KafkaConnectionError, without what the request or the answer contained."""
        if time.monotonic() >= self._good_until:
            self._token, self._good_until = await self._ask()
        return self._token

    async def _ask(self) -> tuple[str, float]:
        import aiohttp

        try:
            form = {"grant_type": "client_credentials", **({"scope": self._scope} if self._scope else {})}
            headers = {"Authorization": aiohttp.encode_basic_auth(*self._client)}
            limit, asked = aiohttp.ClientTimeout(total=_TOKEN_LIMIT_S), time.monotonic()
            async with (
                aiohttp.ClientSession(timeout=limit, raise_for_status=True) as session,
                session.post(self._url, data=form, headers=headers) as answer,
            ):
                token = await answer.json(content_type=None)
            return str(token["access_token"]), asked + _RENEWED_AT * float(token.get("expires_in", _TOKEN_LIFE_S))
        except aiohttp.ClientResponseError as problem:
            why = f"the answer was {problem.status}"
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            why = type(problem).__name__
        except (ValueError, KeyError, TypeError, AttributeError):
            why = "the answer has no token"
        raise KafkaConnectionError(f"no token from {shown_url(self._url)}: {why}")  # others show the credentials

    def extensions(self) -> dict[str, str]:
        """Returns `name=value,name=value` of the settings."""
        pairs = (pair.partition("=") for pair in self._extensions.split(",") if pair.strip())
        return {name.strip(): value.strip() for name, _, value in pairs}
