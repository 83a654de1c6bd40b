"""The web application of the shop: what a request publishes goes to the customer in its path."""

import os

from fastapi import FastAPI, HTTPException
from tasks import app, report

from fairqueue import FairQueue
from fairqueue.dashboard import app as dashboard
from fairqueue_celery import queue_of, schedules_of
from fairqueue_web.asgi import FairQueueMiddleware
from fairqueue_web.fastapi import job_events


def make_web(queue: FairQueue, dashboard_token: str | None = None) -> FastAPI:
    """Make the application; a test makes one with the queue of the test.

    Without a token there is no dashboard: anyone who reaches the shop would be an operator.
    """
    web = FastAPI()
    web.add_middleware(FairQueueMiddleware, workspace_from="path:/orgs/{workspace}/")
    if dashboard_token:
        web.mount("/queues", dashboard(queue, token=dashboard_token))

    @web.post("/orgs/{org}/reports", status_code=202)
    def order(org: str, month: str, seconds: float = 0.5) -> dict[str, str]:
        """Order a report. If too many of this customer wait, the answer is 429 with Retry-After."""
        return {"org": org, "task": report.delay(month, seconds=seconds).id}

    @web.get("/orgs/{org}/reports/{task}")
    def status(org: str, task: str) -> dict[str, object]:
        """Tell how far a report is. Another customer's is not found."""
        job = queue.job(task, workspace=org)
        if job is None:
            raise HTTPException(404)
        return {"state": job.state.value, "expected_seconds": job.expected_seconds}

    def customer(org: str) -> str:
        return org

    web.get("/orgs/{org}/reports/{job_id}/events")(job_events(queue, workspace=customer))

    @web.put("/orgs/{org}/nightly")
    def nightly(org: str, hour: int, tz: str = "UTC") -> dict[str, bool]:
        """Order a report each night; the workers publish it. The same again changes nothing."""
        when = {"cron": f"0 {hour} * * *", "tz": tz, "spread": 600}
        return {"changed": schedules_of(app).put("nightly", report.s("May"), workspace=org, **when)}

    @web.delete("/orgs/{org}/nightly")
    def no_more(org: str) -> dict[str, bool]:
        """Order no more of them."""
        return {"removed": schedules_of(app).remove("nightly", workspace=org)}

    @web.get("/healthz")
    def healthz() -> dict[str, str]:
        """Answer whether this process serves requests; Redis is not asked."""
        return {"status": "ok"}

    return web


web = make_web(queue_of(app), os.environ.get("DASHBOARD_TOKEN"))
