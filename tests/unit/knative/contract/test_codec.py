"""Records of the contract and status topics: their exact bytes, what is read of older ones, what is rejected."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args, get_type_hints

import orjson
import pytest

from knative.contract.codec import KINDS, Entry, UnknownSchema, UnsupportedFeatures, entry_of, record_of
from knative.contract.decoding import DecodeError
from knative.contract.records import (
    Channel,
    ControllerReport,
    RemovalRequest,
    ResourceProblem,
    Subscription,
    Unsupported,
    WorkerState,
    WorkerStatus,
    WorkerSubscription,
    kind_and_name,
    named_channel,
)
from knative.contract.subscription_stats import FailingDelivery, LastError, SubscriptionStats
from knative.delivery.policy import (
    Addressable,
    BackoffPolicy,
    DeliveryFormat,
    DeliveryOrder,
    DeliverySpec,
    OnRetriesExhausted,
)
from knative.filters.dialects import ALL_EVENTS, All, Any_, Attributes, Cesql, Exact, Filter, Not, Prefix, Suffix
from tables.contract_table import decode_entry, encode_entry
from tables.status_parts import encode_status
from tables.status_table import REQUEST_KEY, decode_status, encode_report, encode_request

BROKER = Channel(
    "c1",
    2,
    "ns",
    "ch",
    "t",
    "t.dlq",
    4,
    ("a.example", "b.example"),
    "Broker",
    "5f",
    True,
    "ns/config",
    True,
    ("segment.ms",),
)
CHANNEL = Channel("c2", 1, "ns", "bare", "t2", "t2.dlq", 1)
TRIGGER = Subscription(
    "u2", 4, "ns", "süb", "c1", "ch", "t", "t.dlq", 4, "kafka.u2",
    subscriber=Addressable("https://s/", "PEM\n"),
    reply=Addressable("http://r/"),
    delivery=DeliverySpec(3, BackoffPolicy.LINEAR, 1e-05, 2.5, 60.0, Addressable("http://d/"), DeliveryFormat.JSON),
    order=DeliveryOrder.KEY_ORDERED,
    concurrency=7,
    exhausted=OnRetriesExhausted.IGNORE,
    kind="Trigger",
    spec_hash="6a",
    filter=All((Exact((("type", "ü"),)), Not(Cesql("a = 'b'")))),
    topic_id="topic-id",
)  # fmt: skip
SUBSCRIPTION = Subscription("u1", 3, "ns", "sub", "c1", "ch", "t", "t.dlq", 4, "kafka.u1", Addressable("http://s/"))
#: The bytes of each entry in the contract topic. Workers of other versions read them, so they must not change.
STORED: list[tuple[Entry, str]] = [
    (
        BROKER,
        '{"schema":2,"needs":["broker","external-topic"],'
        '"what":"channel","channel":{"uid":"c1","generation":2,"namespace":"ns","name":"ch","topic":"t",'
        '"dlq_topic":"t.dlq","partitions":4,"hosts":["a.example","b.example"],"kind":"Broker","spec_hash":"5f",'
        '"keep_topic":true,"config_map":"ns/config","external":true,"config_keys":["segment.ms"],'
        '"secret":"","unlisted":false}}',
    ),
    (
        CHANNEL,
        '{"schema":1,"what":"channel","channel":{"uid":"c2","generation":1,"namespace":"ns","name":"bare",'
        '"topic":"t2","dlq_topic":"t2.dlq","partitions":1,"hosts":[],"kind":"KafkaChannel","spec_hash":"",'
        '"keep_topic":false,"config_map":"","external":false,"config_keys":[],"secret":"","unlisted":false}}',
    ),
    (
        SUBSCRIPTION,
        '{"schema":1,"what":"subscription","subscription":{"uid":"u1","generation":3,"namespace":"ns","name":"sub",'
        '"channel_uid":"c1","channel":"ch","topic":"t","dlq_topic":"t.dlq","partitions":4,"group":"kafka.u1",'
        '"subscriber":{"uri":"http://s/","ca_certs":""},"reply":null,"delivery":{"retry":0,'
        '"backoff_policy":"exponential","backoff_delay_s":0.2,"timeout_s":300.0,"retry_after_max_s":null,'
        '"dead_letter_sink":null,"format":"binary"},"order":"ordered","concurrency":100,"exhausted":"dead-letter",'
        '"kind":"Subscription","spec_hash":"","filter":"","topic_id":"","seek":"","stopped":false,'
        '"secret":"","unlisted":false,"delivery_own":[],"delivery_inherited":[]}}',
    ),
    (
        TRIGGER,
        '{"schema":2,"needs":["filter","json-format","trigger"],'
        '"what":"subscription","subscription":{"uid":"u2","generation":4,"namespace":"ns","name":"süb",'
        '"channel_uid":"c1","channel":"ch","topic":"t","dlq_topic":"t.dlq","partitions":4,"group":"kafka.u2",'
        '"subscriber":{"uri":"https://s/","ca_certs":"PEM\\n"},"reply":{"uri":"http://r/","ca_certs":""},'
        '"delivery":{"retry":3,"backoff_policy":"linear","backoff_delay_s":0.00001,"timeout_s":2.5,'
        '"retry_after_max_s":60.0,"dead_letter_sink":{"uri":"http://d/","ca_certs":""},"format":"json"},'
        '"order":"key-ordered","concurrency":7,"exhausted":"ignore","kind":"Trigger","spec_hash":"6a",'
        '"filter":"{\\"all\\":[{\\"exact\\":{\\"type\\":\\"ü\\"}},'
        '{\\"not\\":{\\"cesql\\":\\"a = \'b\'\\"}}]}","topic_id":"topic-id","seek":"","stopped":false,'
        '"secret":"","unlisted":false,"delivery_own":[],"delivery_inherited":[]}}',
    ),
]

STATS = SubscriptionStats(
    1, 2, 3, 4.5, 0.25, (FailingDelivery(1, 20, 3, 99.5, "é"),),
    LastError(98.25, 503, "busy", "body", "http://s/", 1, 20), True,
)  # fmt: skip
SERVED = {
    "u1": WorkerSubscription(3, (0, 1), WorkerState.RUNNING),
    "u2": WorkerSubscription(4, (), WorkerState.FAILED, "why"),
    "u3": WorkerSubscription(1, (0,), WorkerState.RUNNING, filter_problem="LOWER: a text has 70,000 characters"),
}
PROBLEM = ResourceProblem("File", "", "orders.yaml:4", "False", "Bad", 'it is "bad"')


@pytest.mark.parametrize(("entry", "stored"), STORED)
def test_bytes_of_an_entry(entry: Entry, stored: str) -> None:
    assert encode_entry(entry).decode() == stored
    assert decode_entry(stored.encode()) == entry


def test_stopped_subscription_needs_a_reader_that_stops_it() -> None:
    stopped = replace(SUBSCRIPTION, seek="r", stopped=True)
    record = record_of(stopped)
    assert (record["schema"], record["needs"]) == (2, ["stopped"])
    assert entry_of(record) == stopped
    assert record_of(replace(stopped, stopped=False))["schema"] == 1


#: What was stored before Brokers and Triggers were served.
OLDER = [
    (
        CHANNEL,
        '{"schema":1,"what":"channel","channel":{"uid":"c2","generation":1,"namespace":"ns","name":"bare",'
        '"topic":"t2","dlq_topic":"t2.dlq","partitions":1,"hosts":[],"kind":"KafkaChannel","spec_hash":"",'
        '"keep_topic":false}}',
    ),
    (
        SUBSCRIPTION,
        '{"schema":1,"what":"subscription","subscription":{"uid":"u1","generation":3,"namespace":"ns","name":"sub",'
        '"channel_uid":"c1","channel":"ch","topic":"t","dlq_topic":"t.dlq","partitions":4,"group":"kafka.u1",'
        '"subscriber":{"uri":"http://s/","ca_certs":""},"reply":null,"delivery":{"retry":0,'
        '"backoff_policy":"exponential","backoff_delay_s":0.2,"timeout_s":300.0,"retry_after_max_s":null,'
        '"dead_letter_sink":null},"order":"ordered","concurrency":100,"exhausted":"dead-letter",'
        '"kind":"Subscription","spec_hash":"","topic_id":""}}',
    ),
]


#: What was stored before records named the features that they need.
OLDER += [
    (entry, '{"schema":1,' + stored[stored.index('"what"') :]) for entry, stored in STORED if entry in (BROKER, TRIGGER)
]


@pytest.mark.parametrize(("entry", "stored"), OLDER)
def test_older_entry_is_read(entry: Entry, stored: str) -> None:
    assert decode_entry(stored.encode()) == entry


@pytest.mark.parametrize(
    "filter_",
    [
        ALL_EVENTS,
        Any_(()),
        Attributes((("type", ""),)),
        Exact((("type", "a"), ("source", "/b"))),
        Prefix((("type", "a"),)),
        Suffix((("type", '"\\'),)),
        All((Any_((Exact((("a", "b"),)),)), Not(ALL_EVENTS))),
        Cesql("type LIKE '%é'"),
    ],
)
def test_every_filter_comes_back(filter_: Filter) -> None:
    entry = replace(TRIGGER, filter=filter_)
    assert decode_entry(encode_entry(entry)) == entry


@pytest.mark.parametrize(
    "text", ["{", "[]", "1", '{"exact":{},"all":[]}', '{"regex":{}}', '{"all":[{}]}', '{"not":[]}']
)
def test_filter_that_is_not_known_makes_the_record_unreadable(text: str) -> None:
    """A worker that does not know a filter must not deliver all events instead."""
    record = record_of(TRIGGER)
    with pytest.raises((KeyError, TypeError, ValueError)):
        entry_of({**record, "subscription": {**record["subscription"], "filter": text}})


def test_label_is_a_kind_and_a_name() -> None:
    assert kind_and_name("ns/trigger:all", "Subscription") == ("Trigger", "ns/all")
    assert kind_and_name("ns/all", "Subscription") == ("Subscription", "ns/all")
    assert kind_and_name("broker:main", "KafkaChannel") == ("Broker", "main")


@pytest.mark.parametrize(
    ("entry", "unique_name", "label"),
    [
        (CHANNEL, "bare", "ns/bare"),
        (BROKER, "broker:ch", "ns/broker:ch"),
        (SUBSCRIPTION, "sub", "ns/sub"),
        (TRIGGER, "trigger:süb", "ns/trigger:süb"),
    ],
)
def test_resources_of_one_name_have_labels_of_their_own(entry: Entry, unique_name: str, label: str) -> None:
    assert (entry.unique_name, entry.label) == (unique_name, label)
    if isinstance(entry, Subscription):
        assert entry.unique_channel == ("broker:ch" if entry is TRIGGER else "ch")


@pytest.mark.parametrize(
    ("name", "uid"),
    [("both", "c"), ("broker:both", "b"), ("main", "m"), ("broker:main", "m"), ("ch", "c1"), ("no", "")],
)
def test_channel_or_broker_by_name(name: str, uid: str) -> None:
    def of(uid: str, name: str, kind: str) -> Channel:
        return Channel(uid, 1, "ns", name, "t", "t.dlq", 1, kind=kind)

    channels = [of("b", "both", "Broker"), of("c", "both", "KafkaChannel"), of("m", "main", "Broker"), BROKER]
    channel = named_channel(channels, "ns", name)
    assert (channel.uid if channel else "") == uid
    assert named_channel(channels, "other", name) is None


def test_bytes_of_statuses() -> None:
    idle = {"u2": SubscriptionStats()}
    assert encode_status(WorkerStatus("w-1", 1000.5, "all", SERVED, {"u1": STATS, **idle})).decode() == (
        '{"schema":1,"worker":"w-1","time":1000.5,"role":"all","subscriptions":{"u1":{"generation":3,'
        '"partitions":[0,1],"state":"running"},"u2":{"generation":4,"partitions":[],"state":"failed: why"},'
        '"u3":{"generation":1,"partitions":[0],"state":"running",'
        '"filter_problem":"LOWER: a text has 70,000 characters"}},'
        '"progress":{"u1":{"in_flight":1,"retrying":2,"lag":3,"oldest":4.5,"delivered_per_s":0.25,'
        '"heads":[[1,20,3,99.5,"é"]],"last_error":{"time":98.25,"code":503,"reason":"busy","answer":"body",'
        '"destination":"http://s/","partition":1,"offset":20},"throttled":true}}}'
    )
    assert (
        encode_status(WorkerStatus("w-2", 7.0, "ingress"))
        == b'{"schema":1,"worker":"w-2","time":7.0,"role":"ingress","subscriptions":{}}'
    )
    unused = encode_status(WorkerStatus("w-2", 7.0, "ingress", unused="why"))
    assert unused == b'{"schema":1,"worker":"w-2","time":7.0,"role":"ingress","subscriptions":{},"unused":"why"}'
    assert decode_status(unused) == WorkerStatus("w-2", 7.0, "ingress", unused="why")
    reported = WorkerStatus("w-3", 7.0, "ingress", version="1.2", features=("filter",))
    stored = encode_status(reported)
    assert stored.endswith(b'"subscriptions":{},"version":"1.2","features":["filter"]}')
    assert decode_status(stored) == reported


def test_bytes_of_a_report() -> None:
    report = ControllerReport(1000.0, (PROBLEM,), 2, ("f1",))
    stored = encode_report(report)
    assert stored.decode() == (
        '{"schema":1,"controller":{"time":1000.0,"remarks":[{"kind":"File","namespace":"","name":"orders.yaml:4",'
        '"ready":"False","reason":"Bad","message":"it is \\"bad\\""}],"left_out":2,"foreign":["f1"]}}'
    )
    assert decode_status(stored) == report
    parts = (("TopicReady", "False", "Bad", "it is"), ("Addressable", "Unknown", "Waits", ""))
    with_parts = replace(report, problems=(replace(PROBLEM, parts=parts),))
    stored = encode_report(with_parts)
    assert b'"parts":[["TopicReady","False","Bad","it is"],["Addressable","Unknown","Waits",""]]}]' in stored
    assert decode_status(stored) == with_parts
    with pytest.raises(DecodeError, match="parts has an item that is not a condition"):
        decode_status(stored.replace(b'"Unknown"', b'"Maybe"'))
    with_version = replace(report, version="1.2")
    assert encode_report(with_version).endswith(b',"foreign":["f1"],"version":"1.2"}}')
    assert decode_status(encode_report(with_version)) == with_version
    with_types = replace(report, event_types={"ns/broker:main": ("a", "b")})
    assert encode_report(with_types).endswith(b',"foreign":["f1"],"event_types":{"ns/broker:main":["a","b"]}}}')
    assert decode_status(encode_report(with_types)) == with_types


def test_bytes_of_a_request() -> None:
    key, stored = encode_request(RemovalRequest("f1", 12.5))
    assert (key, stored) == (REQUEST_KEY + b"f1", b'{"schema":1,"remove":{"uid":"f1","time":12.5}}')
    assert decode_status(stored) == RemovalRequest("f1", 12.5)


#: Fields that records of the first version have. A record without one of the others is an older one, which is read.
FIRST = {
    Channel: {"uid", "generation", "namespace", "name", "topic", "dlq_topic", "partitions", "hosts"},
    Subscription: {
        "uid", "generation", "namespace", "name", "channel_uid", "channel", "topic", "dlq_topic", "partitions",
        "group", "subscriber", "reply", "delivery", "order", "exhausted",
    },
}  # fmt: skip


@pytest.mark.parametrize("entry", [BROKER, TRIGGER])
def test_field_that_is_missing_has_its_default_unless_every_version_has_it(entry: Entry) -> None:
    record = record_of(entry)
    what = str(record["what"])
    for field in fields(entry):
        older = {**record, what: {name: value for name, value in record[what].items() if name != field.name}}
        if field.name in FIRST[type(entry)]:
            with pytest.raises(DecodeError, match=f"{field.name} is missing"):
                entry_of(older)
        else:
            assert getattr(entry_of(older), field.name) == field.default


@pytest.mark.parametrize(
    "record", [{"schema": 3, "what": "channel"}, {"schema": 1, "what": "broker"}, {"schema": 1, "what": "channel2"}]
)
def test_record_that_only_newer_versions_read(record: dict[str, object]) -> None:
    with pytest.raises(UnknownSchema):
        entry_of(record)


def _needing(entry: Entry, *features: str) -> dict[str, Any]:
    return {**record_of(entry), "schema": 2, "needs": list(features)}


def test_subscription_that_needs_unknown_features_is_known_by_name_only() -> None:
    """Also if other fields have values that this version cannot read."""
    record = _needing(TRIGGER, "filter", "tuned", "exact-once")
    record["subscription"].update(order="by-colour", filter='{"regex":{}}', kind="Trigger")
    with pytest.raises(UnsupportedFeatures) as raised:
        entry_of(record)
    assert raised.value.entry == Unsupported("u2", 4, "ns", "süb", "Trigger", ("tuned", "exact-once"))
    assert str(raised.value) == (
        "Trigger ns/trigger:süb needs tuned, exact-once, which this version does not know; update this worker"
    )


def test_channel_that_needs_unknown_features_is_of_an_unknown_schema() -> None:
    with pytest.raises(UnknownSchema, match="needs tiered, which") as raised:
        entry_of(_needing(CHANNEL, "tiered"))
    assert not isinstance(raised.value, UnsupportedFeatures)


@pytest.mark.parametrize("needs", [None, 5, "filter"])
def test_needs_that_are_not_a_list_of_names(needs: object) -> None:
    with pytest.raises(DecodeError, match="needs is"):
        entry_of({**record_of(TRIGGER), "needs": needs})
    with pytest.raises(DecodeError, match="needs is null"):
        entry_of({name: value for name, value in record_of(TRIGGER).items() if name != "needs"})


EXAMPLES: dict[str, Entry] = {"channel": BROKER, "subscription": TRIGGER}


def _plain(value: object) -> bool:
    return not is_dataclass(value) and (
        all(map(_plain, value.values())) if isinstance(value, dict) else isinstance(value, str | int | float | list)
    )


def test_record_is_plain_values_under_the_names_of_the_fields() -> None:
    for what, kind in KINDS.items():
        entry = EXAMPLES[what]
        record = record_of(entry)
        assert [field.name for field in fields(kind)] == list(record[what])
        assert _plain(record)
        assert orjson.loads(encode_entry(entry)) == record


def _nested(hint: Any) -> list[type]:
    return [part for part in (hint, *get_args(hint)) if is_dataclass(part) and isinstance(part, type)]


def test_every_value_that_is_not_plain_json_is_converted() -> None:
    """A new field of the contract that is an object of its own needs a line in the codec."""
    for entry in EXAMPLES.values():
        again = entry_of(orjson.loads(encode_entry(entry)))
        for name, hint in get_type_hints(type(entry)).items():
            if kinds := tuple(_nested(hint)):
                assert isinstance(getattr(again, name), kinds)
