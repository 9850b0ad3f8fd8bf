"""What a worker holds of one partition of a subscription: counters, lanes and deliveries."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.state import DeliveryState
from knative.filters import Matcher

_QUEUED = DeliveryState.QUEUED
#: Of partitions where nothing has waited yet: an empty deque has 760 bytes, and a worker has 100,000 partitions.
_NOTHING: deque[Delivery] = deque(maxlen=0)

#: Marks a delivery without a lane.
NO_LANE: bytes = b"\x00no lane"
#: The one lane of a partition in `ordered`.
WHOLE: bytes = b"\x00the partition"


class PartitionState:
    """One partition of one subscription, from its assignment until it is revoked or lost. The next assignment makes a
    new object."""

    __slots__ = (
        "acknowledged",
        "committed",
        "failure",
        "fetched_bytes",
        "fetched_count",
        "in_flight",
        "lanes",
        "log_end_offset",
        "number",
        "open",
        "out_of_span",
        "over_limit",
        "owned",
        "position",
        "released",
        "released_bytes",
        "requested",
        "shared",
        "started",
        "topic",
        "tracker",
    )

    def __init__(self, topic: str, number: int, tracker: OffsetTracker) -> None:
        self.topic = topic
        self.number = number
        self.tracker = tracker
        self.open = True  #: False: nothing new is started (being revoked, or gone)
        self.owned = True  #: False: revoked or lost; results that still arrive are not committed
        self.committed = 0  #: the tracker's `changes` at the last successful commit
        self.acknowledged = tracker.committable  #: the committed offset that Kafka confirmed last
        self.requested = tracker.committable  #: the offset of the last commit request; Kafka may not have answered it
        self.log_end_offset = -1  #: one past the newest record in the log, as last reported; -1 = not known yet
        self.position = tracker.committable  #: the first offset not taken; from `tracker.fetched` on: in the channel
        self.failure: str | None = None  #: why this owned partition is not served
        self.lanes: dict[bytes, deque[Delivery] | None] = {}  # lane -> deliveries that wait behind its started one
        self.shared: dict[bytes, int] = {}  # lane -> further started deliveries (only after a change of order)
        self.out_of_span = _NOTHING  # fetched, but too far above the committable offset to be started
        self.over_limit = _NOTHING  # ready, but too many are started in this partition
        self.started = 0  #: started and unsettled
        self.in_flight = 0  #: HTTP requests under way
        self.fetched_count = self.fetched_bytes = 0
        self.released = self.released_bytes = 0

    def wait_for_span(self, delivery: Delivery) -> None:
        """Add it to `out_of_span`."""
        if self.out_of_span is _NOTHING:
            self.out_of_span = deque()
        self.out_of_span.append(delivery)

    def wait_for_others(self, delivery: Delivery) -> None:
        """Add it to `over_limit`."""
        if self.over_limit is _NOTHING:
            self.over_limit = deque()
        self.over_limit.append(delivery)

    @property
    def held(self) -> int:
        """Number of records in memory."""
        return self.fetched_count - self.released

    @property
    def held_bytes(self) -> int:
        """Size of the records in memory, in bytes."""
        return self.fetched_bytes - self.released_bytes


#: Deliveries of one partition in offset order, and the offset below which the subscription has nothing else (0 = not
#: known: the deliveries alone say it).
Batch = tuple[PartitionState, "list[Delivery]", int]


class Delivery:
    """One event on its way to one subscription, from the fetch of its record until it is settled."""

    __slots__ = (
        "began",
        "headers",
        "judged",
        "key",
        "lane",
        "offset",
        "partition",
        "resume",
        "size",
        "state",
        "timestamp_ms",
        "value",
    )

    def __init__(
        self,
        partition: PartitionState,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
        size: int,
        timestamp_ms: int = 0,
        judged: Matcher | None = None,
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.key = key
        self.value = value
        self.headers = headers
        self.size = size
        self.timestamp_ms = timestamp_ms
        self.judged = judged  #: the filter that it has passed, which is not asked again; None = not judged yet
        self.state = _QUEUED  #: changed by `Scheduler` only, as `agents/offsets/state` allows
        self.lane = NO_LANE
        self.began = 0.0  #: monotonic start time of the current attempt
        self.resume: Callable[[], None] | None = None  #: set while a retry waits for a slot
