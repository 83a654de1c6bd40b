"""Adds the right form to click's errors about arguments."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click

from fairqueue import Limits

LIMITS = frozenset(field.name for field in fields(Limits))
SCOPES = ("--workspace", "--queue", "--task")


class HintingGroup(click.Group):
    """A group whose commands' usage errors show the right form."""

    def invoke(self, context: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(context)
        except click.UsageError as error:
            hint = "" if error.ctx is None else _hint(error, error.ctx.command)
            if not hint:
                raise
            raise click.UsageError(error.message + hint, ctx=error.ctx) from None


def _hint(error: click.UsageError, command: click.Command) -> str:
    options = {option for param in command.params for option in param.opts}
    if isinstance(error, click.NoSuchOption):
        name = error.option_name.lstrip("-").replace("-", "_")
        if command.name == "set" and name in LIMITS:
            return f" A limit is written without dashes: {name}=VALUE."
    elif error.message.startswith("Got unexpected extra argument"):
        known = [scope for scope in SCOPES if scope in options]
        if known:
            return f". Say what it names: {', '.join(f'{one} NAME' for one in known)}."
    return ""
