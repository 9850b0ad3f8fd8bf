"""How long this package and the commands wait: a few scales. A wait that is not one of them follows from a setting, or
stands beside what it bounds with the reason why none of them fits."""

from __future__ import annotations

POLL_S = 0.1  #: between two looks at what a thread, a process or a client does
SPARING_S = 0.5  #: the same where each look costs CPU: by a thread at rest, or as a question to Kafka or a worker
AGAIN_S = 0.2  #: before a request that Kafka could not answer yet is sent again
CLOSE_S = 5.0  #: until a thread or a client that was told to end has ended; then it is left behind
ANSWER_S = 10.0  #: Kafka's answer, with the search for the broker that can give it
LATER_S = 1.0  #: added to the limit of a client's own request, so that its error, which says more, comes first
STORED_S = 60.0  #: until Kafka has stored a whole batch: on a busy machine it takes many seconds
