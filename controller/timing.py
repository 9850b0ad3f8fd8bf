"""Durations of the controller that no setting gives, in seconds. They follow from how long a Lease counts."""

from __future__ import annotations

LEASE_S = 15  #: another controller may take a Lease that was not renewed for this long
RENEW_LIMIT_S = LEASE_S * 2 / 3  #: a leader that could not renew for this long stops leading, before another may start
RETRY_S = RENEW_LIMIT_S / 5  #: between two attempts to renew a Lease
LEASE_REQUEST_S = RENEW_LIMIT_S / 2  #: of one request about the Lease: a second one fits into the limit
REQUEST_S = float(LEASE_S)  #: of any other request, including a write that an admission webhook checks
CONNECT_S = LEASE_S / 3
WATCH_S = LEASE_S + round(CONNECT_S)  #: the server is asked to end a stream after this; one that goes on is not trusted
ABSENT_S = float(WATCH_S)  #: until a kind that is not installed is looked for again
CREDENTIALS_S = 4.0 * LEASE_S  #: between two renewals, and of a kubeconfig's exec plugin, which may ask a person

FIRST_PAUSE_S = RETRY_S / 10  #: after a request that failed; each further pause is twice as long
LONGEST_PAUSE_S = 4 * RETRY_S  #: while requests are not answered
LONGEST_CUT_PAUSE_S = RETRY_S  #: after a stream that was cut, or a version that is too old
LONGEST_WRITE_PAUSE_S = 4.0 * LEASE_S  #: while one object cannot be written
