"""``fairqueue doctor``: check the server, and every key against the invariants."""

from __future__ import annotations

from dataclasses import asdict

import click

from fairqueue.cli._connect import connection_options, opened_queue
from fairqueue.cli._format import printable, table
from fairqueue.cli._output import json_option, print_result


@click.command()
@click.option("--forget", is_flag=True, help="First forget what was set aside (I13).")
@json_option
@connection_options
@click.pass_context
def doctor(
    context: click.Context, *, url: str, namespace: str | None, forget: bool, as_json: bool
) -> None:
    """Check the server and every key against the invariants.

    The server's version, eviction policy and role are checked first; exit code 2: it does not meet
    the requirements. Then all keys of the namespace are read and checked against the invariants I1
    to I13 of docs/architecture.md. Exit code 1: something does not hold. Two findings are
    temporary: I2 until a lowered limit has drained, and I7 until the worker that was woken has
    claimed. I13 names what could not be read and was set aside, until --forget removes it.
    """
    with opened_queue(url, namespace) as core:
        if forget:
            core.admin.drop_set_aside()
        findings = core.admin.audit()
    rows = [[finding.invariant, printable(finding.text)] for finding in findings]
    text = table(("invariant", "finding"), rows) if rows else "Every invariant holds."
    print_result({"findings": [asdict(one) for one in findings]}, text, as_json=as_json)
    context.exit(1 if findings else 0)
