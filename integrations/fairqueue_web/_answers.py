"""How a rejection is answered: 429 where the client's own workspace is full, else 503."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from fairqueue.errors import CapacityExceeded, RequestRejected, WorkspaceUnresolved


class BadWorkspace(WorkspaceUnresolved):
    """A request names no workspace, or a text that cannot be one: it is answered with 400."""

    is_missing = False

    @classmethod
    def missing(cls) -> BadWorkspace:
        """Return the error of a request that names none."""
        error = cls("the request names no workspace: see the sources of workspace_from")
        error.is_missing = True
        return error


Rejection = CapacityExceeded | RequestRejected | BadWorkspace
REJECTIONS = (CapacityExceeded, RequestRejected, BadWorkspace)

OWN_FAULT, BUSY, NO_WORKSPACE = 429, 503, 400
DETAILS = {
    OWN_FAULT: "Too many requests of this workspace: try again later.",
    BUSY: "The service is busy: try again later.",
    NO_WORKSPACE: "The workspace name is too long or not valid.",
}
"""What a client is told: nothing of limits, queues or other workspaces."""
MISSING = "The request does not name a workspace."


@dataclass(frozen=True, slots=True)
class Answer:
    """A response without a framework."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def answer_to(error: Rejection) -> Answer:
    """Return the response to a rejected request or publish."""
    status = _status(error)
    is_missing = isinstance(error, BadWorkspace) and error.is_missing
    body = json.dumps({"detail": MISSING if is_missing else DETAILS[status]}).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    if not isinstance(error, BadWorkspace):
        headers.append(("Retry-After", str(math.ceil(error.retry_after))))
    return Answer(status, tuple(headers), body)


def _status(error: Rejection) -> int:
    if isinstance(error, BadWorkspace):
        return NO_WORKSPACE
    draining = isinstance(error, CapacityExceeded) and error.draining
    return OWN_FAULT if error.scope == "workspace" and not draining else BUSY
