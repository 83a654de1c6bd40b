"""docket (pydocket), also with its ConcurrencyLimit for each workspace."""

import common
from docket import ConcurrencyLimit, Docket


async def plain_job(number: int, workspace: str, seconds: float) -> None:
    await common.run_async(number, workspace, seconds)


async def limited_job(
    number: int,
    workspace: str,
    seconds: float,
    _limit: ConcurrencyLimit = ConcurrencyLimit("workspace", max_concurrent=common.LIMIT),  # noqa: B008
) -> None:
    await common.run_async(number, workspace, seconds)


job = limited_job if common.VARIANT == "limit" else plain_job
tasks = [job]
docket = Docket(name="peer", url=common.URL)
entered = False


async def send(number: int, workspace: str, seconds: float) -> None:
    global entered  # noqa: PLW0603
    if not entered:
        await docket.__aenter__()
        entered = True
    await docket.add(job)(number, workspace, seconds)


def work() -> None:
    options = ["--docket=peer", f"--url={common.URL}", "--tasks=docket_app:tasks"]
    options += [f"--concurrency={common.SLOTS}", "--logging-level=WARNING"]
    if common.RECOVER:
        options.append(f"--redelivery-timeout={common.RECOVER}s")
    common.become("docket", "worker", *options)


if __name__ == "__main__":
    common.main(work, send)
