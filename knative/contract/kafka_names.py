"""Names in Kafka: topics from templates, consumer groups, and the topics of the installation itself.

Two resources must never share a topic, so all names are made and checked here, by Kafka's own rules.
"""

from __future__ import annotations

import re
import string

TOPIC_CHARS_MAX = 249
GROUP_CHARS_MAX = 255
DOMAIN_CHARS_MAX = 120  #: a host name has at most 253, and the channel's own part needs the rest
DLQ_SUFFIX = ".dlq"
WINDOWS_TABLE = "traffic"
CHANNEL_TOPIC_TEMPLATE = "knative-messaging-kafka.{namespace}.{name}"
BROKER_TOPIC_TEMPLATE = "knative-broker.{namespace}.{name}"

_NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # sixteen zero bytes, as Kafka prints them
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)
_DOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*", re.ASCII)
_INSTANCE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)


def agent_name(namespace: str, name: str, uid: str) -> str:
    """Returns the Faust agent of a subscription."""
    return f"{namespace}.{name}.{uid[:8]}"


def contract_topic(instance: str) -> str:
    """Returns the compacted topic with everything that the data plane must serve."""
    return f"{instance}.contract"


def status_topic(instance: str) -> str:
    """Returns the compacted topic with the status records of the workers and the leading controller."""
    return f"{instance}.status"


def redriven_topic(instance: str) -> str:
    """Returns the compacted topic of the redrive ledger: which dead letters were delivered again."""
    return f"{instance}.redriven"


def audit_topic(instance: str) -> str:
    """Returns the topic of what people did in the console: who, when, what."""
    return f"{instance}.audit"


def traffic_topic(instance: str) -> str:
    """Returns the topic of traffic deltas: one record per second and key."""
    return f"{instance}.traffic"


def windows_group(instance: str) -> str:
    """Returns the consumer group of workers that sum up traffic windows; also the prefix of their changelog topics."""
    return f"{instance}.windows"


def windows_changelog_topic(instance: str) -> str:
    """Returns the compacted topic behind the windows table. Faust forms the name: application, table, `changelog`."""
    return f"{windows_group(instance)}-{WINDOWS_TABLE}-changelog"


def fanout_group(instance: str, topic: str) -> str:
    """Returns the consumer group of the workers that read a broker's topic for its Triggers. Its offsets start nothing:
    each Trigger's group has its own."""
    return f"{instance}.fanout.{topic}"


def redrive_group(instance: str) -> str:
    """Returns the lock group of redrives: one runs at a time."""
    return f"{instance}.redrive"


def controller_group(instance: str) -> str:
    """Returns the lock group of controllers: the member that owns its one partition leads."""
    return f"{instance}.controller"


def doctor_group(instance: str) -> str:
    """Returns the group in which `penstock doctor` commits one offset, to see a broker's time; then it is deleted."""
    return f"{instance}.doctor"


def subscription_group(uid: str) -> str:
    """Returns the consumer group of a Subscription: by uid, so that one that is created again inherits no offsets."""
    return f"kafka.{uid}"


def channel_topic(template: str, namespace: str, name: str) -> str:
    """Returns the topic of a channel or broker. `template` holds `{namespace}` and `{name}`: see `template_problem`."""
    return template.format(namespace=namespace, name=name)


def dlq_topic(topic: str) -> str:
    """Returns the topic for dead letters that have no other dead letter sink."""
    return topic + DLQ_SUFFIX


def topic_id(text: object) -> str:
    """Returns Kafka's id of a topic. A topic that is created again has another id. "" before Kafka 2.8."""
    id_ = str(text)
    return "" if id_ == _NO_TOPIC_ID else id_


def collision_key(topic: str) -> str:
    """Two topics with the same key cannot both exist: `.` and `_` are the same character in Kafka's metric names."""
    return topic.replace("_", ".")


def topic_problem(topic: str, instance: str) -> tuple[str, str] | None:
    """Returns why a channel cannot have this topic, as (CamelCase reason, sentence with a hint); None = it can.

    The name must also leave room for the `.dlq` suffix of its DLQ topic.
    """
    longest = TOPIC_CHARS_MAX - len(DLQ_SUFFIX)
    if len(topic) > longest:
        return (
            "TopicNameTooLong",
            f"the topic name would have {len(topic)} characters, but may have at most {longest}, because "
            f"{DLQ_SUFFIX!r} is appended; give the resource a shorter name or namespace, or shorten the topic template",
        )
    if not _LEGAL.fullmatch(topic) or topic in (".", ".."):
        return (
            "TopicNameInvalid",
            f"{topic!r} is not a valid topic name (letters, digits, '.', '_' and '-'); correct the topic template",
        )
    if topic.startswith("__") or collision_key(topic).startswith(collision_key(f"{instance}.")):
        return (
            "TopicNameReserved",
            f"{topic!r} is reserved for internal topics of Kafka or of this installation ({instance}.*); "
            "choose another name, another topic template or another instance name",
        )
    return None


def template_problem(template: str) -> str | None:
    """Returns what is wrong with a topic template, as one sentence; None = nothing."""
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]
        sample = template.format(namespace="namespace", name="name")
    except (ValueError, IndexError, KeyError, AttributeError) as error:
        return f"{template!r} is not a valid template ({error}); use {{namespace}} and {{name}}, each once"
    if sorted(fields) != ["name", "namespace"]:
        return f"{template!r} must contain {{namespace}} and {{name}}, each once, or two resources could share a topic"
    if not _LEGAL.fullmatch(sample):
        return f"{template!r} does not make valid topic names; use letters, digits, '.', '_' and '-'"
    return None


def stored_topic_problem(topic: str) -> str | None:
    """Returns why the topic of a record cannot be one that this program named; None = it can."""
    if len(topic) <= TOPIC_CHARS_MAX and _LEGAL.fullmatch(topic) and topic not in (".", ".."):
        return None
    return "is not a valid topic name"


def stored_group_problem(group: str) -> str | None:
    """Returns why the group of a record cannot be one that this program named; None = it can. librdkafka ends the
    process for an empty one."""
    return None if len(group) <= GROUP_CHARS_MAX and _LEGAL.fullmatch(group) else "is not a valid group name"


def instance_problem(instance: str) -> str | None:
    """Returns what is wrong with an instance name, as one sentence; None = nothing."""
    if _INSTANCE.fullmatch(instance):
        return None
    return f"{instance!r} is not a valid instance name; use lower-case letters, digits and '-', at most 63 characters"


def domain_problem(domain: str) -> str | None:
    """Returns what is wrong with the cluster domain (the end of host names), as one sentence; None = nothing."""
    if _DOMAIN.fullmatch(domain) and len(domain) <= DOMAIN_CHARS_MAX:
        return None
    rule = f"lower-case letters, digits and '-', separated by dots, at most {DOMAIN_CHARS_MAX} characters"
    return f"it is not a valid domain name; use {rule}"
