"""A FastAPI application behind the front door, for uvicorn."""

from __future__ import annotations

import asyncio
import os

from fastapi import FastAPI

from fairqueue.adapters import current_workspace
from fairqueue_web.asgi import FairQueueMiddleware

app = FastAPI()
app.add_middleware(
    FairQueueMiddleware,
    queue=os.environ["SITE_URL"],
    namespace=os.environ["SITE_NAMESPACE"],
    workspace_from="header:X-Org",
    workspace_requests=1,
    lease_seconds=os.environ["SITE_LEASE_SECONDS"],
)


@app.get("/whose")
def whose() -> str | None:
    return current_workspace()


@app.get("/hold")
async def hold() -> None:
    await asyncio.sleep(120)
