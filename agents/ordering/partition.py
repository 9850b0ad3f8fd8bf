"""One partition of a subscription, and its deliveries: what of it is in memory here, and how far each one is."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from agents.ordering.offset_tracker import OffsetTracker
from agents.ordering.state import DeliveryState

_QUEUED = DeliveryState.QUEUED

#: Lane of a record that needs none.
NO_LANE: bytes = b"\x00no lane"
#: The one lane of a partition in `ordered`.
WHOLE: bytes = b"\x00the partition"


class PartitionState:
    """One partition of one subscription from its assignment to its revocation. A re-assignment makes a new one."""

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
        "reached",
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
        self.owned = True  #: False: let go; results that still arrive are not committed
        self.committed = 0  #: the watermark's `changes` as last committed
        self.acknowledged = tracker.committable  #: the committed offset that Kafka confirmed last
        self.requested = tracker.committable  #: the committed offset last asked for; Kafka may not have answered
        self.log_end_offset = -1  #: one past the newest record in the log, as last heard; -1 = not heard yet
        self.reached = -1  #: the client met the end of the log here: every record below it has been handed over
        self.failure = ""  #: why it is not served although owned
        self.lanes: dict[bytes, deque[Delivery] | None] = {}  # lane -> records behind its started one
        self.shared: dict[bytes, int] = {}  # lane -> started records beside its first (after a change of order only)
        self.out_of_span: deque[Delivery] = deque()  # fetched, but too far above the watermark to be started
        self.over_limit: deque[Delivery] = deque()  # ready, but too many are started in this partition
        self.started = 0  #: started and unsettled
        self.in_flight = 0  #: HTTP requests under way
        # Two counters with one writer each, not one with two: the consumer's thread adds, the event loop takes off.
        self.fetched_count = self.fetched_bytes = 0
        self.released = self.released_bytes = 0

    @property
    def held(self) -> int:
        """Records in memory."""
        return self.fetched_count - self.released

    @property
    def held_bytes(self) -> int:
        """Bytes of records in memory."""
        return self.fetched_bytes - self.released_bytes


class Delivery:
    """One Kafka record on its way to being settled."""

    __slots__ = (
        "began",
        "headers",
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
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.key = key
        self.value = value
        self.headers = headers
        self.size = size
        self.timestamp_ms = timestamp_ms
        self.state = _QUEUED  #: changed by `Scheduler` only, as `agents/ordering/state` allows
        self.lane = NO_LANE
        self.began = 0.0  #: monotonic time at which the present attempt began
        self.resume: Callable[[], None] | None = None  #: set while a retry waits for a slot
