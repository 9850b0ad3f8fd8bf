"""Translates Kafka's errors into Penstock's, for every request that a person or the controller has to act on.

    KafkaFailed ---+-- KafkaUnavailable   no broker answered in time            wait, or name another Kafka
                   +-- KafkaNotYet        a leader or coordinator is not ready  the same request works in a moment
                   +-- KafkaNotFound      no such topic, partition or group
                   +-- KafkaExists        it is there already
                   +-- KafkaDenied        not allowed; the hint names the ACL
                   +-- KafkaInvalid       Kafka cannot have it like this

Consumers and producers of the data path do not use this: what an error means for an offset or an event is decided
beside the code that handles it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, KafkaException

from knative.errors import NotReadyError, PenstockError


class KafkaFailed(PenstockError):
    """A request to Kafka failed. `why`: the reason alone, mostly in Kafka's own words; `code`: Kafka's, 0 = none."""

    def __init__(self, what: str, why: str = "", hint: str = "", code: int = 0) -> None:
        super().__init__(what, hint)
        self.why: str = why or what
        self.code = code


class KafkaUnavailable(KafkaFailed, NotReadyError):
    """No broker answered within the time limit."""


class KafkaNotYet(KafkaFailed, NotReadyError):
    """A temporary state of the cluster: the same request succeeds in a moment."""


class KafkaNotFound(KafkaFailed):
    """There is no such topic, partition or group, or the broker that was asked does not know it yet."""


class KafkaExists(KafkaFailed):
    """The topic or the partitions exist already."""


class KafkaDenied(KafkaFailed):
    """The user of this connection is not allowed to do this."""


class KafkaInvalid(KafkaFailed):
    """A name, a number or a config that this Kafka does not take."""

    @property
    def may_be_a_config(self) -> bool:
        """Whether the request may succeed with fewer configs. A policy says in its own words what it refuses."""
        return self.code in (KafkaError.POLICY_VIOLATION, KafkaError.INVALID_CONFIG)


_KINDS: Mapping[type[KafkaFailed], tuple[int, ...]] = {
    KafkaUnavailable: (
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._RESOLVE,
    ),
    KafkaNotYet: (
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
    ),
    KafkaNotFound: (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._NOENT,  # none of the partitions that were asked for exists
        KafkaError.GROUP_ID_NOT_FOUND,
    ),
    KafkaExists: (KafkaError.TOPIC_ALREADY_EXISTS,),
    KafkaDenied: (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    ),
    KafkaInvalid: (
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_CONFIG,
        KafkaError.POLICY_VIOLATION,
    ),
}
_START_OR_NAME = "Start a Kafka with `penstock kafka up`, or name yours: --kafka HOST:PORT."
_KIND_OF = {code: kind for kind, codes in _KINDS.items() for code in codes}

_HINTS: Mapping[int, str] = {
    KafkaError.INVALID_REPLICATION_FACTOR: "lower spec.replicationFactor to the number of brokers, or add brokers",
    KafkaError.POLICY_VIOLATION: "ask the administrator of this Kafka which topics its policy allows",
    KafkaError.INVALID_CONFIG: "correct default.topic.config.* in the broker's ConfigMap",
    KafkaError.TOPIC_EXCEPTION: "choose another name or topic template",
    KafkaError.TOPIC_DELETION_DISABLED: "set delete.topic.enable=true on the brokers, or delete the topic by hand",
}


def failed(doing: str, error: KafkaError | KafkaException, acl: str = "") -> KafkaFailed:
    """Returns the exception for Kafka's error. `doing`: the request in words; `acl`: the permission that it needs."""
    cause: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    code, why = cause.code(), cause.str()
    kind = _KIND_OF.get(code, KafkaFailed)
    if kind is KafkaUnavailable:
        return unanswered(doing, why)
    hint = f"grant Penstock {acl}" if kind is KafkaDenied and acl else _HINTS.get(code, "")
    return kind(f"{doing}: {why}" + (f"; {hint}" if hint else ""), why, code=code)


def unanswered(doing: str, why: str) -> KafkaUnavailable:
    """Returns the exception for a request that no broker answered."""
    return KafkaUnavailable(f"{doing}: Kafka does not answer ({why})", why)


def unreachable(bootstrap: str, why: str, hint: str = _START_OR_NAME) -> KafkaUnavailable:
    """Returns the exception for a Kafka that answers nothing: most likely it does not run, or the address is wrong."""
    return KafkaUnavailable(f"Kafka at {bootstrap} does not answer ({why}).", why, hint)


def leave_out(*kinds: type[KafkaFailed]) -> Callable[[object, KafkaFailed], None]:
    """Leaves out the answers of a request that failed in one of these ways, and raises other errors."""

    def check(_: object, problem: KafkaFailed) -> None:
        if not isinstance(problem, kinds):
            raise problem

    return check
