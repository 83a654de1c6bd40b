"""``fairqueue why`` and ``fairqueue workspace``: why a job or a workspace waits."""

from __future__ import annotations

import shlex
from dataclasses import asdict

import click

from fairqueue import FairQueue, JobState, Scope
from fairqueue.cli._command import Answer, listed, on_queue
from fairqueue.cli._options import hint_at_unseen, job_argument
from fairqueue.cli._typed import as_typed
from fairqueue.explained import explain_called, explain_runs, explain_state, explain_wait
from fairqueue.messages import Arguments, shown
from fairqueue.plain import count_jobs, moment, printable
from fairqueue.tables import LIMITS

RUNS = 20


@click.command()
@job_argument()
@click.option("--queue", help="Look for the job on this queue only.")
@click.option("--workspace", help="Look for a dead job in this workspace only.")
@on_queue
def why(core: FairQueue, *, job: str, queue: str | None, workspace: str | None) -> Answer:
    """Explain why a job waits.

    The output has what blocks the job, since when, until when, and what is ahead of it, its
    arguments and its starts. JOB is its id, or its Celery task id or Dramatiq message id. Exit code
    1: there is no such job.
    """
    found = core.views.why(job, queue=queue, workspace=workspace)
    is_unknown = found.state is JobState.UNKNOWN
    called, runs = Arguments(), core.history.list(job_id=job, most=RUNS)
    if found.job is not None and found.job.queue:
        of = found.job
        payload = core.jobs.payload(of.job_id, workspace=of.workspace, queue=of.queue)
        called = shown(payload or b"")
    lines = [explain_state(found), *explain_called(called), *map(as_typed, explain_wait(found))]
    lines += explain_runs(runs)
    result = {**asdict(found), "called": called._asdict(), "runs": [*map(asdict, runs)]}
    return Answer(result, "\n".join(lines), int(is_unknown and not runs))


@click.command()
@click.argument("name")
@on_queue
def workspace(core: FairQueue, *, name: str) -> Answer:
    """Show a workspace: its limits, its jobs, and why they wait."""
    scope = Scope.workspace(name)
    found, limits = core.views.why(workspace=name), core.limits.get(scope)
    pauses = {(row.scope, row.name): row.state.value for row in core.pauses.list()}
    pause = pauses.get(("workspace", name))
    if found.state is JobState.IDLE and not (found.running or found.dead):
        _hint_where_its_jobs_may_be(core, name)
    lines = [explain_state(found), *([f"it is {pause}"] if pause else [])]
    if limits:
        lines += ["", listed(LIMITS[:3], [*limits.items()], ""), ""]
    lines += map(as_typed, explain_wait(found))
    of_limits = {limit: asdict(of) for limit, of in limits.items()}
    return Answer({**asdict(found), "limits": of_limits, "pause": pause}, "\n".join(lines))


def _hint_where_its_jobs_may_be(core: FairQueue, name: str) -> None:
    """Print on standard error under which name the jobs of an empty workspace may be."""
    hint_at_unseen(core, Scope.workspace(name))
    default = core.settings.default_workspace
    unnamed = core.views.why(workspace=default).without_workspace if name != default else {}
    if unnamed:
        n, shown = sum(each.jobs for each in unnamed.values()), printable(default)
        last = moment(max(each.last for each in unnamed.values()))
        text = f"{count_jobs(n)} named no workspace and went to {shown!r}, the last at {last}"
        look = f"{as_typed('fairqueue workspace')} {shlex.quote(shown)}"
        click.echo(f"{text}: {look}", err=True)
