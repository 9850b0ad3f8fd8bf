"""What goes wrong between the controller and an API server."""

from __future__ import annotations

from knative.errors import PenstockError

CONFLICT, GONE, NOT_FOUND, FORBIDDEN, TOO_MANY = 409, 410, 404, 403, 429

NOT_VALID = frozenset({"Invalid", "BadRequest"})  #: reasons: the same request is never taken
ALREADY_EXISTS = "AlreadyExists"  #: reason of the conflict that a name is taken

ASK_DOCTOR = "check the API server, CRDs and RBAC with `penstock doctor`"


class ApiError(PenstockError):
    """The API server refused a request, or did not answer it (`status` 0)."""

    def __init__(self, status: int, what: str, why: str, retry_after_s: float = 0.0, reason: str = "") -> None:
        """`what`: the request, such as `GET /apis/...`. `why`: in the server's words; `reason`: its word for that."""
        super().__init__(f"{what}: {f'{status} ' if status else ''}{why}")
        self.status = status
        self.why = why
        self.retry_after_s = retry_after_s
        self.reason = reason

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later without anybody's help."""
        return self.status in (0, TOO_MANY) or self.status >= 500

    @property
    def lacks_right(self) -> bool:
        """Whether a role is missing. Quotas, and namespaces that are being deleted, cause a 403 as well."""
        return self.status == FORBIDDEN and '" cannot ' in self.why  # User "..." cannot create resource "..."


class StreamCut(ApiError):
    """The stream of a watch began, and ended in the middle of an event or with an error of the network."""

    def __init__(self, what: str, why: str) -> None:
        """See ApiError."""
        super().__init__(0, what, why)


def retry_after_s(header: str | None) -> float:
    """Returns the wait that a `Retry-After` in seconds asks for; API servers write no dates."""
    text = (header or "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) <= 4 else 0.0
