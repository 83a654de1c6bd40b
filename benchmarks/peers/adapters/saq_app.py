"""saq: one event loop."""

import common
from saq import Queue

queue = Queue.from_url(common.URL)


async def job(_context: object, *, number: int, workspace: str, seconds: float) -> None:
    await common.run_async(number, workspace, seconds)


settings = {"queue": queue, "functions": [job], "concurrency": common.SLOTS}
if common.RECOVER:
    settings["timers"] = {"sweep": common.RECOVER // 2}


async def send(number: int, workspace: str, seconds: float) -> None:
    given = {"number": number, "workspace": workspace, "seconds": seconds}
    timeout = {"timeout": common.RECOVER} if common.RECOVER else {}
    await queue.enqueue("job", retries=3, ttl=-1, **timeout, **given)


if __name__ == "__main__":
    common.main(lambda: common.become("saq", "saq_app.settings", "--quiet"), send)
