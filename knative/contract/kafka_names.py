"""Names in Kafka: topics from templates, consumer groups, and what belongs to the installation itself.

Two resources must never meet in one topic, so everything that makes a name is here, with the checks of Kafka's own
rules. Refuses to ask Kafka whether a name is taken.
"""

from __future__ import annotations

import re
import string

TOPIC_CHARS_MAX = 249
DOMAIN_CHARS_MAX = 120  #: a host name has 253 at most, and the channel's own part comes before
DLQ_SUFFIX = ".dlq"
WINDOWS_TABLE = "traffic"
CHANNEL_TOPIC_TEMPLATE = "knative-messaging-kafka.{namespace}.{name}"

_NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # sixteen bytes of zero, as Kafka writes them
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)
_DOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*", re.ASCII)
_INSTANCE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)


def agent_name(namespace: str, name: str, uid: str) -> str:
    """The Faust agent of a subscription."""
    return f"{namespace}.{name}.{uid[:8]}"


def contract_topic(instance: str) -> str:
    """The compacted topic of what the data plane must serve."""
    return f"{instance}.contract"


def status_topic(instance: str) -> str:
    """The compacted topic of what the workers do."""
    return f"{instance}.status"


def redriven_topic(instance: str) -> str:
    """The compacted topic of which dead letters were delivered again."""
    return f"{instance}.redriven"


def traffic_topic(instance: str) -> str:
    """The topic of what went through, summed up by the second."""
    return f"{instance}.traffic"


def windows_group(instance: str) -> str:
    """The consumer group of those who sum traffic up to windows, and the beginning of their changelogs' names."""
    return f"{instance}.windows"


def windows_changelog_topic(instance: str) -> str:
    """The compacted topic behind their table (its name is Faust's: application, table, `changelog`)."""
    return f"{windows_group(instance)}-{WINDOWS_TABLE}-changelog"


def redrive_group(instance: str) -> str:
    """The lock group of those who redrive: one at a time."""
    return f"{instance}.redrive"


def controller_group(instance: str) -> str:
    """The lock group: who owns its one partition leads."""
    return f"{instance}.controller"


def subscription_group(uid: str) -> str:
    """The consumer group of a Subscription. By uid: one made anew inherits neither place nor backlog."""
    return f"kafka.{uid}"


def channel_topic(template: str, namespace: str, name: str) -> str:
    """The topic of a channel. `template` holds `{namespace}` and `{name}` (see `template_problem`)."""
    return template.format(namespace=namespace, name=name)


def dlq_topic(topic: str) -> str:
    """Where the dead letters of a topic go when nothing else is said."""
    return topic + DLQ_SUFFIX


def topic_id(text: object) -> str:
    """Kafka's id of a topic, which another one under the same name does not have; "" before Kafka 2.8."""
    id_ = str(text)
    return "" if id_ == _NO_TOPIC_ID else id_


def collision_key(topic: str) -> str:
    """Two topics with the same key cannot both be: Kafka takes `.` and `_` for one character in its metrics."""
    return topic.replace("_", ".")


def topic_problem(topic: str, instance: str) -> tuple[str, str] | None:
    """Why a channel cannot have this topic, as (CamelCase reason, sentence with the cure); None = it can.

    Room for the `.dlq` of its dead letters is asked for too.
    """
    longest = TOPIC_CHARS_MAX - len(DLQ_SUFFIX)
    if len(topic) > longest:
        return (
            "TopicNameTooLong",
            f"the topic's name would have {len(topic)} characters, and {longest} is the most that leaves room for "
            f"{DLQ_SUFFIX!r}; give the resource a shorter name or namespace, or shorten the topic template",
        )
    if not _LEGAL.fullmatch(topic) or topic in (".", ".."):
        return (
            "TopicNameInvalid",
            f"{topic!r} is no legal topic name (letters, digits, '.', '_' and '-'); mend the topic template",
        )
    if topic.startswith("__") or collision_key(topic).startswith(collision_key(f"{instance}.")):
        return (
            "TopicNameReserved",
            f"{topic!r} lies among the internal topics of Kafka or of this installation ({instance}.*); "
            "choose another name, another topic template or another instance name",
        )
    return None


def template_problem(template: str) -> str | None:
    """What is wrong with a topic template, as one sentence; None = nothing."""
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]
        sample = template.format(namespace="namespace", name="name")
    except (ValueError, IndexError, KeyError, AttributeError) as error:
        return f"{template!r} is no template ({error}); use {{namespace}} and {{name}}, each once"
    if sorted(fields) != ["name", "namespace"]:
        return f"{template!r} must hold {{namespace}} and {{name}}, each once, or two resources could share a topic"
    if not _LEGAL.fullmatch(sample):
        return f"{template!r} makes illegal topic names; use letters, digits, '.', '_' and '-'"
    return None


def instance_problem(instance: str) -> str | None:
    """What is wrong with an instance name, as one sentence; None = nothing."""
    if _INSTANCE.fullmatch(instance):
        return None
    return f"{instance!r} is no instance name; use lower-case letters, digits and '-', 63 characters at most"


def domain_problem(domain: str) -> str | None:
    """What is wrong with the domain that host names end with, as one sentence; None = nothing."""
    if _DOMAIN.fullmatch(domain) and len(domain) <= DOMAIN_CHARS_MAX:
        return None
    rule = f"lower-case letters, digits and '-', with dots between, {DOMAIN_CHARS_MAX} characters at most"
    return f"it is no domain name; use {rule}"
