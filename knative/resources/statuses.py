"""Shapes of the `status` of our kinds. Nobody but the controller writes them, so they have few rules."""

from __future__ import annotations

from knative.resources.schema import Integer, Items, Node, Object, Text, Texts

_CONDITION = Object(
    fields={
        "type": Text(meaning="What the condition is about.", required=True),
        "status": Text(meaning="`True`, `False` or `Unknown`.", required=True),
        "reason": Text(meaning="Why, for programs."),
        "message": Text(meaning="Why, and what to do."),
        "lastTransitionTime": Text(meaning="Since when it has this status."),
        "severity": Text(meaning="Not used."),
    }
)
_ADDRESS = Object(
    meaning="Where events are POSTed.",
    fields={
        "url": Text(meaning="The URL."),
        "name": Text(meaning="The name of the address."),
        "CACerts": Text(meaning="A PEM bundle to trust for it."),
        "audience": Text(meaning="Not used."),
    },
)

CONDITIONS: dict[str, Node] = {
    "observedGeneration": Integer(meaning="The generation that this status is about.", default=0, least=0),
    "conditions": Items(meaning="The conditions; `Ready` sums them up.", of=_CONDITION, most=32, key="type"),
    "annotations": Texts(meaning="What else is known, such as the name of the topic."),
}

ADDRESSABLE: dict[str, Node] = {
    **CONDITIONS,
    "address": _ADDRESS,
    "addresses": Items(meaning="All addresses.", of=_ADDRESS, most=256),
    "deadLetterSinkUri": Text(meaning="The dead letter sink, resolved."),
    "deadLetterSinkCACerts": Text(meaning="A PEM bundle to trust for it."),
}

SUBSCRIBERS: dict[str, Node] = {
    "subscribers": Items(
        meaning="The subscriptions that are served.",
        of=Object(
            fields={
                "uid": Text(meaning="The uid of the Subscription.", required=True),
                "observedGeneration": Integer(meaning="The generation in force.", default=0, least=0),
                "ready": Text(meaning="`True`, `False` or `Unknown`."),
                "message": Text(meaning="Why, and what to do."),
            }
        ),
        most=20_000,
        key="uid",
    )
}

_URIS = ("subscriberUri", "subscriberCACerts", "replyUri", "replyCACerts", "deadLetterSinkUri", "deadLetterSinkCACerts")

PHYSICAL_SUBSCRIPTION: dict[str, Node] = {
    "physicalSubscription": Object(meaning="The destinations, resolved.", fields={name: Text() for name in _URIS})
}

TRIGGER_URIS: dict[str, Node] = {
    name: Text(meaning="The destination, resolved.")
    for name in ("subscriberUri", "subscriberCACerts", "deadLetterSinkUri", "deadLetterSinkCACerts")
}
