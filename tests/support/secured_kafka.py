"""A real Kafka with TLS, SASL and ACLs.

direct     PLAINTEXT, for tests: may do everything
sasl       SASL_SSL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER (tokens without a signature)
mtls       SSL, and only for clients with a certificate of the authority
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from app.local.kafka.ports import LOOPBACK
from tests.support.certificates import Authority, Signed
from tests.support.kafka_cluster import KafkaCluster
from tests.support.processes import free_port

PLAIN_USER, PLAIN_PASSWORD = "plain-user", 'pl"ain\\ pass;word'
_LIMIT_S = 30.0
_ITERATIONS = 4096
_MECHANISMS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
_SECURITY = "org.apache.kafka.common.security"


class SecuredKafka(KafkaCluster):
    """One broker. `with` starts and stops it."""

    def __init__(
        self, folder: Path, server: Callable[[Authority], Signed] = lambda authority: authority.sign("broker")
    ) -> None:
        """`server`: the certificate that it shows, by default one for loopback."""
        self.authority = Authority(folder / "authority")
        self._sasl, self._mtls = free_port(), free_port()
        self._server = server(self.authority).in_one()
        super().__init__(folder, brokers=1, also=self._listeners)

    @property
    def sasl(self) -> str:
        """`host:port` of the listener with SASL."""
        return f"{LOOPBACK}:{self._sasl}"

    @property
    def mtls(self) -> str:
        """`host:port` of the listener for clients with a certificate."""
        return f"{LOOPBACK}:{self._mtls}"

    def _listeners(self, settings: Mapping[str, str]) -> Mapping[str, str]:
        more = f"SASL://{self.sasl},MTLS://{self.mtls}"
        plain = f'user_{PLAIN_USER}="{_quoted(PLAIN_PASSWORD)}"'
        at = "listener.name.sasl"
        return {
            "listeners": f"{settings['listeners']},{more}",
            "advertised.listeners": f"{settings['advertised.listeners']},{more}",
            "listener.security.protocol.map": f"{settings['listener.security.protocol.map']},SASL:SASL_SSL,MTLS:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
            "listener.name.mtls.ssl.client.auth": "required",
            f"{at}.sasl.enabled.mechanisms": ",".join(("PLAIN", *_MECHANISMS, "OAUTHBEARER")),
            f"{at}.plain.sasl.jaas.config": f"{_SECURITY}.plain.PlainLoginModule required {plain};".replace(
                "\\", "\\\\"
            ),
            **{
                f"{at}.{name.lower()}.sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;"
                for name in _MECHANISMS
            },
            f"{at}.oauthbearer.sasl.jaas.config": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="broker";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
        }

    # -- Secrets

    def sasl_secret(self, folder: Path, mechanism: str, user: str, password: str) -> Path:
        keys = {"protocol": "SASL_SSL", "sasl_mechanism": mechanism, "user": user, "password": password}
        return write_secret(folder, **keys, ca_crt=self.authority.certificate)

    def mtls_secret(self, folder: Path, name: str = "client") -> Path:
        """For the listener for clients with a certificate."""
        client = self.authority.sign(name)
        return write_secret(folder, ca_crt=self.authority.certificate, user_crt=client.certificate, user_key=client.key)

    # -- who may connect, and what for

    def set_password(self, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> None:
        info = ScramCredentialInfo(_MECHANISMS[mechanism], _ITERATIONS)
        self._alter(user, UserScramCredentialUpsertion(user, info, password.encode()))

    def remove_user(self, user: str) -> None:
        """New connections of this user are refused."""
        self._alter(user, UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512))

    def _alter(self, user: str, change: UserScramCredentialUpsertion | UserScramCredentialDeletion) -> None:
        self._client().alter_user_scram_credentials([change])[user].result(_LIMIT_S)

    def grant(self, user: str, kind: ResourceType, name: str, operations: Iterable[AclOperation]) -> None:
        """What a user may do with a topic or a group. Users without such a rule may do nothing with it any more."""
        for operation in operations:
            self._rule(user, kind, name, operation, AclPermissionType.ALLOW)

    def deny(self, user: str, topic: str) -> AclBinding:
        """The user may not write to a topic, until `allow`."""
        return self._rule(user, ResourceType.TOPIC, topic, AclOperation.WRITE, AclPermissionType.DENY)

    def permit(self, user: str, topic: str, operation: str) -> AclBinding:
        """Nobody may do anything else with a topic, until `allow`."""
        return self._rule(user, ResourceType.TOPIC, topic, AclOperation[operation], AclPermissionType.ALLOW)

    def _rule(
        self, user: str, kind: ResourceType, name: str, operation: AclOperation, effect: AclPermissionType
    ) -> AclBinding:
        rule = AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, effect)
        self._client().create_acls([rule])[rule].result(_LIMIT_S)
        return rule

    def allow(self, rule: AclBinding) -> None:
        """Remove a rule of `deny` or `permit`."""
        fields = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")
        what = AclBindingFilter(*(getattr(rule, name) for name in fields))
        self._client().delete_acls([what])[what].result(_LIMIT_S)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


class MountedSecret:
    """A folder as the kubelet mounts a Secret: a link is swapped, and all keys change at one instant."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._number = folder, 0

    def mount(self, source: Path) -> None:
        """Have it show the files of this folder."""
        self._number += 1
        version = self.folder / f"..{self._number}"
        shutil.copytree(source, version)
        link = self.folder / "..new"
        link.symlink_to(version.name)
        former = os.readlink(self.folder / "..data") if self._number > 1 else ""
        link.rename(self.folder / "..data")
        for path in version.iterdir():
            if not (self.folder / path.name).is_symlink():
                (self.folder / path.name).symlink_to(f"..data/{path.name}")
        if former:
            shutil.rmtree(self.folder / former)


def write_secret(folder: Path, **keys: str | Path) -> Path:
    """A folder as a mounted Secret: `_` of the names stands for `.`; the content of paths is copied."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in keys.items():
        text = value.read_text() if isinstance(value, Path) else value
        new = folder / f".{name}"
        new.write_text(text)
        new.rename(folder / name.replace("_", "."))
    return folder
