"""``fairqueue schedules``: list schedules, and pause, resume, trigger or remove one."""

from __future__ import annotations

import click

from fairqueue import FairQueue
from fairqueue.cli._command import Answer, listing, on_queue
from fairqueue.plain import printable
from fairqueue.tables import SCHEDULES

DONE = {
    "pause": "paused: none of its ticks is published until it is resumed",
    "resume": "resumed, from now on",
    "trigger": "triggered: a worker publishes its job within a second",
    "remove": "removed",
}


@click.command()
@click.argument("action", required=False, type=click.Choice([*DONE]))
@click.argument("name", required=False)
@click.option("--workspace", help="Only schedules of this workspace; with an action, its own.")
@on_queue
def schedules(
    core: FairQueue, *, action: str | None, name: str | None, workspace: str | None
) -> Answer:
    """Show the schedules, the next one first; or pause, resume, trigger or remove one.

    A schedule that workers declare comes back after it was removed: pause it. Exit code 1: there is
    no schedule of this name.
    """
    if action is None:
        rows = core.schedules.list(workspace)
        return listing("schedules", SCHEDULES, rows, "There is no schedule.")
    if name is None or workspace is None:
        raise click.UsageError(f"name the schedule: {action} NAME --workspace WORKSPACE")
    done = getattr(core.schedules, action)(name, workspace=workspace)
    text = f"schedule {printable(name)} of workspace {printable(workspace)}: "
    text += DONE[action] if done else "there is none"
    return Answer({"name": name, "workspace": workspace, "done": done}, text, int(not done))
