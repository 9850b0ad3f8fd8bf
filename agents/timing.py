"""How long the parts of `agents` wait, in addition to the scales of `tables/timing`. What is not one of them stands
beside what it bounds, with its reason."""

from __future__ import annotations

MOMENT_S = 0.005  #: shortest time between two looks that cost the event loop something
TICK_S = 0.01  #: a turn of the event loop that others wait for, and how late one may be
LATE_S = 0.05  #: a timer later than this was held up, and what waits for another turn looks again
FULL_S = 0.2  #: how long a full buffer is waited for before something is done about it
REST_S = 0.25  #: a poll of a client at rest
LOOK_S = 1.0  #: between two looks at what changes seldom, and how long "lately" is
SELDOM_S = 5.0  #: the same where each look is a question to Kafka for each partition or group
RETRY_S = (1.0, 10.0)  #: the first wait before what has failed is tried again, and the longest
STEADY_S = 60.0  #: what has lasted for so long is as it will stay
RENEW_S = 3600.0  #: far below the days for which Kafka keeps what nobody uses
