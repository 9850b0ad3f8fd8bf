"""Shapes of the `status` of our kinds. Nobody but the controller writes them, so they have few rules."""

from __future__ import annotations

from knative.resources.schema import Integer, Items, Node, Object, Text, Texts

_CONDITION = Object(
    fields={
        "type": Text(meaning="Type of the condition.", required=True),
        "status": Text(meaning="`True`, `False` or `Unknown`.", required=True),
        "reason": Text(meaning="Reason, for programs."),
        "message": Text(meaning="Message for people: the cause, and what to do."),
        "lastTransitionTime": Text(meaning="Time of the last change of the status."),
        "severity": Text(meaning="Not used."),
    }
)
_ADDRESS = Object(
    meaning="Where events are sent with POST.",
    fields={
        "url": Text(meaning="The URL."),
        "name": Text(meaning="Name of the address."),
        "CACerts": Text(meaning="PEM bundle of the CA certificates to trust for this address."),
        "audience": Text(meaning="Not used."),
    },
)

CONDITIONS: dict[str, Node] = {
    "observedGeneration": Integer(meaning="Generation of the object that this status describes.", default=0, least=0),
    "conditions": Items(meaning="Conditions; `Ready` summarizes the others.", of=_CONDITION, most=32, key="type"),
    "annotations": Texts(meaning="More facts, such as the name of the topic."),
}

ADDRESSABLE: dict[str, Node] = {
    **CONDITIONS,
    "address": _ADDRESS,
    "addresses": Items(meaning="All addresses.", of=_ADDRESS, most=256),
    "deadLetterSinkUri": Text(meaning="Resolved dead letter sink."),
    "deadLetterSinkCACerts": Text(meaning="PEM bundle of the CA certificates to trust for this address."),
}

SUBSCRIBERS: dict[str, Node] = {
    "subscribers": Items(
        meaning="Status of each subscription.",
        of=Object(
            fields={
                "uid": Text(meaning="UID of the Subscription.", required=True),
                "observedGeneration": Integer(meaning="Generation that is served.", default=0, least=0),
                "ready": Text(meaning="`True`, `False` or `Unknown`."),
                "message": Text(meaning="Message for people: the cause, and what to do."),
            }
        ),
        most=20_000,
        key="uid",
    )
}

_URIS = ("subscriberUri", "subscriberCACerts", "replyUri", "replyCACerts", "deadLetterSinkUri", "deadLetterSinkCACerts")

PHYSICAL_SUBSCRIPTION: dict[str, Node] = {
    "physicalSubscription": Object(meaning="Resolved destinations.", fields={name: Text() for name in _URIS})
}

TRIGGER_URIS: dict[str, Node] = {
    name: Text(meaning="Resolved destination.")
    for name in ("subscriberUri", "subscriberCACerts", "deadLetterSinkUri", "deadLetterSinkCACerts")
}
