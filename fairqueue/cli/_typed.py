"""Writes commands in messages as the user has to type them: program, app and URL."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator

import click
from click.core import ParameterSource

from fairqueue.adapters import mask_password
from fairqueue.plain import printable

PREFIX = "fairqueue.cli.prefix"
"""Key under which click's context keeps the words before a command, unless it is the program."""

CONNECTION = ("url", "namespace")


def as_typed(text: str) -> str:
    """Write each ``fairqueue COMMAND`` of a text as this command was called.

    So it can be copied: with the program's words, such as ``celery -A shop fairqueue``, and the
    given ``--url`` and ``--namespace``, quoted for a shell. Passwords are masked.
    """
    context = click.get_current_context(silent=True)
    if context is None:
        return text
    prefix = printable(str(context.meta.get(PREFIX) or context.find_root().info_name))
    options = printable("".join(_options(context)))
    names = "|".join(re.escape(name) for name in _commands(_group(context)))
    command = re.compile(rf"(?<![\w./-])fairqueue ({names or '(?!)'})(?![\w-])")
    return command.sub(lambda found: f"{prefix} {found[1]}{options}", text)


def _options(context: click.Context) -> Iterator[str]:
    """Return the connection options that were given after the command."""
    for name in CONNECTION:
        if is_given(context, name):
            yield f" --{name} {shlex.quote(mask_password(context.params[name]))}"


def is_given(context: click.Context, name: str) -> bool:
    """Whether an option was given on the command line."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _group(context: click.Context) -> click.Command:
    """Return the group of all commands: the outermost one that is named ``fairqueue``."""
    found, group = context, context.command
    while found.parent is not None:
        found = found.parent
        group = found.command if found.command.name == "fairqueue" else group
    return group


def _commands(group: click.Command) -> Iterator[str]:
    """Yield the names of its commands; subcommands first, since they begin alike."""
    for name, command in getattr(group, "commands", {}).items():
        yield from (f"{name} {inner}" for inner in _commands(command))
        yield name


def words_before(context: click.Context) -> str:
    """Return the words of this group's program, such as ``celery -A shop fairqueue``.

    Its own options come from ``sys.argv``: the program may have turned them into objects.
    """
    root = context.find_root()
    if root is context:
        return str(context.info_name)
    given = sys.argv[1:]
    try:
        rest = root.command.make_parser(root).parse_args(list(given))[1]
    except click.UsageError:
        rest = []
    is_ours = rest[:1] == [context.info_name]
    options = given[: len(given) - len(rest)] if is_ours else []
    words = [shlex.quote(mask_password(word)) for word in options]
    return " ".join([str(root.info_name), *words, str(context.info_name)])
