"""The limits of a soak, which its load and its judge know."""

from __future__ import annotations

from typing import Any

STEADY = [f"w{n}" for n in range(8)]
FAMILY, FAMILY_LIMIT = STEADY[:3], 4
CHANGED, PAUSED = "w4", "w5"
LIMIT, LONG_LIMIT = 3, {"concurrency": 4, "workspace_concurrency": 2}
SETTINGS: dict[str, Any] = {
    "namespace": "soak",
    "workspace_from": "kwarg:tenant_id",
    "workspace_concurrency": LIMIT,
    "history": 1000,
    "keep_failures": True,
    "tasks": {"soak_celery.long": LONG_LIMIT},
    "workspaces": {
        **{name: {"parent": "family"} for name in FAMILY},
        "family": {"concurrency": FAMILY_LIMIT},
        "crowded": {"concurrency": 1},
        "full": {"concurrency": 1, "capacity": 3},
        "cancelled": {"concurrency": 20},
    },
}
