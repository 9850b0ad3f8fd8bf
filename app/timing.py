"""How long commands and workers wait, in addition to the scales of `tables/timing`."""

from __future__ import annotations

LOOK_S = 1.0  #: between two looks at what rarely changes: a file, credentials, who leads
GLANCE_S = 2.0  #: an answer that is only useful at once: for a completion, a hint, a probe that is tried again
HTTP_S = 30.0  #: an answer over HTTP
END_S = 10.0  #: until what was told to end is ended by force, or a killed process is gone
START_S = 120.0  #: a start, or all of a demo's deliveries: seconds, and a minute for each process on a busy machine
LONG_S = 900.0  #: a download over a slow line, or Spark on a very busy machine
LONGEST_WAIT_S = 60.0  #: between two tries of what keeps failing; one that worked for longer begins at the shortest
SAY_S = 5.0  #: a person who waits for longer is told what for
SESSION_MIN_S = 6.0  #: of members of groups: the least that brokers allow by default
