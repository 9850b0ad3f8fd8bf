"""Values that both the sources of resources and the writers of their status use."""

from __future__ import annotations

from dataclasses import dataclass

from knative.contract.records import Channel, Subscription

PART_MAX = 50  #: objects in one decision, and in one round of actions; Kafka can answer for that many new ones in time
Key = tuple[str, str, str]  #: (kind, namespace, name)
Record = Channel | Subscription  #: of the contract


TROUBLES = ("lease", "watch", "finalizer", "service", "status")  #: what a Trouble may be about


@dataclass(frozen=True, slots=True)
class Trouble:
    """What the controller cannot do at the API server now."""

    what: str  #: one of TROUBLES
    object: str  #: the Lease, the path of a list, or an object such as `KafkaChannel ns/orders`
    since: float  #: Unix seconds
    why: str
    stops: bool = False  #: nothing is served as it is asked for until this is over


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A problem in the resources directory. `ignored`: only this document is left out, the rest of the file counts.
    `suspected_typo`: an ignored document that was probably meant to be served."""

    file: str  #: relative to the directory; "." is the directory itself
    line: int
    field: str
    what: str
    hint: str
    ignored: bool = False
    suspected_typo: bool = False
    object: str = ""  #: such as `KafkaChannel default/orders`; "" = not known, or not about one object
