"""``fairqueue status``: whether anything is wrong, in one line, for people and probes."""

from __future__ import annotations

from dataclasses import asdict

import click

from fairqueue import FairQueue
from fairqueue.audit import Level
from fairqueue.cli._command import Answer, on_queue
from fairqueue.cli._format import printable, table
from fairqueue.cli._typed import as_typed


@click.command()
@on_queue
def status(core: FairQueue) -> Answer:
    """Say in one line whether anything is wrong, and then what.

    It names silent workers, queues from which nothing is claimed, missing worker slots, jobs that
    run ten times longer than their average, dead letters of the last hour, pauses, contradicting
    limits, and what is wrong with Redis. It reads no key of a job, so a probe may call it. Exit
    code 1: there is a problem. A warning alone is exit code 0.
    """
    found = core.doctor.status()
    rows = [[one.level.value, one.about, as_typed(printable(one.text))] for one in found.reasons]
    text = "\n".join([found.line, *([table(("level", "about", "remark"), rows)] if rows else [])])
    result = {"level": found.level.value, **asdict(found)}
    return Answer(result, text, int(found.level is Level.PROBLEM))
