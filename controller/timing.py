"""Durations of the controller that no setting gives, in seconds. They follow from how long a Lease counts."""

from __future__ import annotations

LEASE_S = 15  #: a Lease that is not renewed for so long may be taken by another
RENEW_LIMIT_S = LEASE_S * 2 / 3  #: a leader that could not renew for so long leads no more: before another may take it
RETRY_S = RENEW_LIMIT_S / 5  #: between two attempts to renew a Lease
LEASE_REQUEST_S = RENEW_LIMIT_S / 2  #: of one request about the Lease: a second one fits into the limit
REQUEST_S = float(LEASE_S)  #: of any other request, including a write that an admission webhook checks
CONNECT_S = LEASE_S / 3
WATCH_S = LEASE_S + round(CONNECT_S)  #: so long is a stream believed that says nothing; the server is asked for no more
ABSENT_S = float(WATCH_S)  #: until a kind that is not installed is looked for again
CREDENTIALS_S = 4.0 * LEASE_S  #: between two renewals, and of a kubeconfig's exec plugin, which may ask a person

FIRST_PAUSE_S = RETRY_S / 10  #: after a request that failed; each further pause is twice as long
LONGEST_PAUSE_S = 4 * RETRY_S  #: while requests are not answered
LONGEST_CUT_PAUSE_S = RETRY_S  #: after a stream that was cut, or a version that is too old
LONGEST_WRITE_PAUSE_S = 4.0 * LEASE_S  #: while one object cannot be written
