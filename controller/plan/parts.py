"""Finds the part of a world that a change can touch: a decision costs what has changed, not what there is. Pure.

    dirty uids -> focus: whose decisions may change               the channel of a dirty subscription, if it lists it
               -> context: what those decisions depend on         its Broker, the rivals for its names, refs, ConfigMaps
               -> a world of the context, which `reconcile` handles like any other, but decides for the focus only

There is one definition of what to do, `reconcile`. A property test compares its decisions about parts with those about
the whole, over random changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from controller.config import ControllerConfig
from controller.plan.actions import AnyObject, ObservedKafka, World
from controller.plan.ownership import service_hosts, short_host
from controller.plan.specs import of_channel
from knative.contract import kafka_names
from knative.contract.leader_state import Removal
from knative.contract.records import BROKER, CHANNEL, TRIGGER, Channel, Subscription
from knative.resources.destination import Destination
from knative.resources.values import Broker, DeliveryRules, KafkaChannel, Trigger
from knative.resources.values import Subscription as SubscriptionResource

T = TypeVar("T")
_GROUP = kafka_names.subscription_group("")
Token = tuple[str, ...]
Item = AnyObject | Channel | Subscription | Removal

#: What a token says about an item: its name, its channel or ConfigMap, a topic or host that it claims, an object that
#: it refers to, a topic that it reads, the uid of its channel, a uid that it lists as a subscriber.
_NAMED, _MEMBER, _CLAIMS, _REFERS, _READS, _OF, _LISTS = "named", "member", "claims", "refers", "reads", "of", "lists"


class Parts:
    """Objects, contract records and removals by what they have to do with each other."""

    def __init__(self, config: ControllerConfig) -> None:
        self._config = config
        self.objects: dict[str, AnyObject] = {}
        self._records: dict[str, Channel | Subscription] = {}
        self._removals: dict[str, Removal] = {}
        self.revision: int | None = None  #: of the contract that `follow` or `renew` had last; None = not known
        self._tokens: dict[str, dict[str, frozenset[Token]]] = {"object": {}, "record": {}, "removal": {}}
        self._having: defaultdict[Token, dict[str, int]] = defaultdict(dict)  #: token -> uid -> how often

    # -- what there is

    def put_object(self, uid: str, object_: AnyObject | None) -> None:
        """Take an object as it is now; None = it is not there."""
        _put(self.objects, uid, object_)
        self._put("object", uid, () if object_ is None else self._of_object(object_))

    def differences(self, published: Mapping[str, Channel | Subscription], removals: Mapping[str, Removal]) -> set[str]:
        """Returns the uids of what is different in the contract and the removals since `follow`."""
        return _differences(self._records, published) | self.removed(removals)

    def removed(self, removals: Mapping[str, Removal]) -> set[str]:
        """Returns the uids of what is different in the removals since `follow`."""
        return _differences(self._removals, removals)

    def follow(self, published: Mapping[str, Channel | Subscription], removals: Mapping[str, Removal]) -> None:
        """Take the contract and the removals as they are now."""
        self._follow(self.differences(published, removals), published, removals)

    def _follow(
        self,
        changed: Iterable[str],
        published: Mapping[str, Channel | Subscription],
        removals: Mapping[str, Removal],
    ) -> None:
        for uid in changed:
            record, removal = published.get(uid), removals.get(uid)
            _put(self._records, uid, record)
            _put(self._removals, uid, removal)
            self._put("record", uid, () if record is None else self._of_record(record))
            claims = () if removal is None else [_claim(topic) for topic in (*removal.topics, removal.topic)]
            self._put("removal", uid, claims)

    def _put(self, what: str, uid: str, tokens: Iterable[Token]) -> None:
        now = frozenset(tokens)
        before = self._tokens[what].pop(uid, frozenset())
        if now:
            self._tokens[what][uid] = now
        for token in before - now:
            having = self._having[token]
            having[uid] -= 1
            if not having[uid]:
                del having[uid]
            if not having:
                del self._having[token]
        for token in now - before:
            having = self._having[token]
            having[uid] = having.get(uid, 0) + 1

    # -- tokens

    def _of_object(self, object_: AnyObject) -> Iterable[Token]:
        resource = object_.resource
        kind, namespace, name = object_.key
        yield _NAMED, kind, namespace, name
        if isinstance(resource, KafkaChannel):
            template = self._config.topic_template
            yield from _claims(kafka_names.channel_topic(template, namespace, name))
            yield from (_host(host) for host in service_hosts(of_channel(resource, self._config), self._config))
            yield from (_host(host) for host in resource.hosts)
            for entry in resource.subscribers:
                yield _LISTS, entry.uid
                yield from _refs(namespace, entry.subscriber, entry.reply, _sink(entry.delivery))
            yield from _refs(namespace, _sink(resource.delivery))
        elif isinstance(resource, Broker):
            template = self._config.broker_template
            yield from _claims(resource.external_topic or kafka_names.channel_topic(template, namespace, name))
            yield from (_host(host) for host in resource.hosts)
            yield from _refs(namespace, _sink(resource.delivery))
            if resource.config is not None:
                yield _MEMBER, "ConfigMap", *resource.config
        elif isinstance(resource, SubscriptionResource):
            yield _MEMBER, CHANNEL, namespace, resource.channel
            yield from _refs(namespace, resource.subscriber, resource.reply, _sink(resource.delivery))
        elif isinstance(resource, Trigger):
            yield _MEMBER, BROKER, namespace, resource.broker
            yield from _refs(namespace, resource.subscriber, _sink(resource.delivery))

    @staticmethod
    def _of_record(record: Channel | Subscription) -> Iterable[Token]:
        yield _NAMED, *record.key
        if isinstance(record, Channel):
            yield _claim(record.topic)
            yield _claim(record.dlq_topic)
            yield from (_host(host) for host in record.hosts)
        else:
            yield _MEMBER, BROKER if record.kind == TRIGGER else CHANNEL, record.namespace, record.channel
            yield _OF, record.channel_uid
            yield _READS, kafka_names.collision_key(record.topic)

    def _all_tokens(self, uid: str) -> list[Token]:
        return [token for tokens in self._tokens.values() for token in tokens.get(uid, ())]

    def _with(self, what: str, name: Iterable[str]) -> Iterable[str]:
        return self._having.get((what, *name), ())

    # -- the part

    def claiming(self, topics: Iterable[str]) -> set[str]:
        """Returns the uids of those that claim these topics."""
        return {uid for topic in topics for uid in self._with(*_split(_claim(topic)))}

    def changed_in_kafka(self, before: ObservedKafka, after: ObservedKafka) -> set[str]:
        """Returns the uids of what is concerned by a difference between two observations of the same things."""
        uids = self.claiming(changed(before.topics, after.topics))
        for name in ("committed", "groups", "offsets", "unknown"):
            uids |= self.of_groups(changed(getattr(before, name), getattr(after, name)))
        return uids

    def of_groups(self, groups: Iterable[str]) -> set[str]:
        """Returns the uids of those that these consumer groups belong to."""
        return {group.removeprefix(_GROUP) for group in groups}

    def concerned(self, targets: Iterable[str]) -> set[str]:
        """Returns the uids of what actions of these targets are about."""
        uids: set[str] = set()
        for target in targets:
            what, _, name = target.partition(" ")
            if what in ("topic", "room"):
                uids |= self.claiming([name.removeprefix("in topic ")])
            elif what == "group":
                uids |= self.of_groups([name])
            else:
                uids.add(name)
        return uids

    def touched(self, dirty: Iterable[str]) -> set[str]:
        """Returns the uids whose decisions may change because of these, in their present state: call it before a change
        is put, and after. What depends on a subscription is the status of its channel, which lists it; on a channel,
        all that reads it or refers to it, and the rivals for its names."""
        uids, new, weak = set(dirty), list(dirty), set[str]()
        while new:
            uid = new.pop()
            near = set(self._with(_OF, (uid,)))
            weak.update(self._with(_LISTS, (uid,)))
            for what, *name in self._all_tokens(uid):
                if what == _NAMED:
                    for relation in (_NAMED, _MEMBER, _REFERS):
                        near.update(self._with(relation, name))
                elif what == _CLAIMS:
                    near.update(self._with(_CLAIMS, name))
                elif what == _LISTS:
                    near.add(name[0])
                elif what == _MEMBER and name[0] == CHANNEL:
                    weak.update(self._with(_NAMED, name))
            near -= uids
            uids |= near
            new += near
        return uids | weak

    def context(self, focus: Collection[str]) -> set[str]:
        """Returns what decisions about these depend on, with these."""
        uids, new = set(focus), list(focus)
        while new:
            uid = new.pop()
            near: set[str] = set()
            for what, *name in self._all_tokens(uid):
                if what in (_MEMBER, _REFERS, _NAMED):
                    near.update(self._with(_NAMED, name))
                elif what == _CLAIMS:
                    near.update(self._with(_CLAIMS, name))
                    if uid in self._removals and uid in focus:
                        near.update(self._with(_READS, name))
                elif what in (_OF, _LISTS):
                    near.add(name[0])
                if what == _NAMED and name[0] == CHANNEL and uid in focus:
                    near.update(self._with(_MEMBER, name))
            near -= uids
            uids |= near
            new += near
        return uids

    def namespace_of(self, uid: str) -> str:
        """Returns its namespace; "" = not known."""
        if (object_ := self.objects.get(uid)) is not None:
            return object_.resource.namespace
        if (record := self._records.get(uid)) is not None:
            return record.namespace
        removal = self._removals.get(uid)
        return removal.label.partition("/")[0] if removal is not None else ""

    def brokers(self) -> set[str]:
        """Returns the uids of all Brokers."""
        return {uid for uid, object_ in self.objects.items() if isinstance(object_.resource, Broker)}

    def renew(
        self,
        published: Mapping[str, Channel | Subscription],
        removals: Mapping[str, Removal],
        changed: Collection[str],
        dirty: Collection[str],
        object_of: Callable[[str], AnyObject | None],
    ) -> set[str]:
        """Follow what has changed, and return the uids of what it touches. `changed`: the differences, as those who
        know that nothing is published anew need not compare all of it."""
        dirty = {*dirty, *changed}
        focus = self.touched(dirty)
        self._follow(changed, published, removals)
        for uid in dirty:
            self.put_object(uid, object_of(uid))
        return focus | self.touched(dirty)

    def world(self, whole: World, focus: Collection[str]) -> World:
        """Returns the part of a world that decisions about these uids need. `whole` has no objects."""
        uids = sorted(self.context(focus))
        channels = {uid: record for uid in uids if isinstance(record := self._records.get(uid), Channel)}
        subscriptions = {uid: record for uid in uids if isinstance(record := self._records.get(uid), Subscription)}
        return replace(
            whole,
            objects=tuple(self.objects[uid] for uid in uids if uid in self.objects),
            channels=channels,
            subscriptions=subscriptions,
            removals={uid: removal for uid, removal in whole.removals.items() if uid in uids},
            creations={uid: removal for uid, removal in whole.creations.items() if uid in uids},
            seeks={id_: seek for id_, seek in whole.seeks.items() if id_ in uids},
            only=frozenset(focus),
        )


def _claims(topic: str) -> Iterable[Token]:
    yield _claim(topic)
    yield _claim(kafka_names.dlq_topic(topic))


def _claim(topic: str) -> Token:
    return _CLAIMS, kafka_names.collision_key(topic)


def _host(host: str) -> Token:
    return _CLAIMS, f"host {short_host(host)}"


def _split(token: Token) -> tuple[str, Token]:
    return token[0], token[1:]


def changed(before: Mapping[str, object], after: Mapping[str, object]) -> set[str]:
    """Returns the names of what is not equal; None is as good as nothing. Most is the same object in both, which need
    not be compared."""
    names = () if before is after else before.keys() | after.keys()
    return {name for name in names if (old := before.get(name)) is not (new := after.get(name)) and old != new}


def _sink(rules: DeliveryRules | None) -> Destination | None:
    return None if rules is None else rules.dead_letter_sink


def _refs(namespace: str, *destinations: Destination | None) -> Iterable[Token]:
    for destination in destinations:
        if destination is not None and destination.ref is not None:
            yield _REFERS, destination.ref.kind, destination.ref.namespace or namespace, destination.ref.name


def _put(where: dict[str, T], uid: str, value: T | None) -> None:
    if value is None:
        where.pop(uid, None)
    else:
        where[uid] = value


def _differences(before: Mapping[str, object], after: Mapping[str, object]) -> set[str]:
    changed = {uid for uid, value in after.items() if before.get(uid) is not value}
    return changed | (before.keys() - after.keys())
