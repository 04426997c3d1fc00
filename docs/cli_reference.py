"""Writes the reference of the command line, from the commands themselves, into the given file."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kinesis_assets.cli.command_line import commands

if TYPE_CHECKING:
    from collections.abc import Iterator

_INTRODUCTION = """\
# Command line

`make docs` generates this page from the commands.

| exit code | meaning |
|---|---|
| 0 | The command succeeded: each shard is committed or finished, or `doctor` found no problem. |
| 1 | The command failed, a shard was not committed, or `doctor` found a problem. |
| 2 | The input is invalid. Nothing was changed. |
| 130 | The command was interrupted before anything was committed. |
"""


def reference() -> str:
    """Return the page."""
    root = click.Context(commands, info_name="kinesis-assets")
    return "\n".join([_INTRODUCTION, *_sections(commands, root)])


def _sections(group: click.Group, parent: click.Context) -> Iterator[str]:
    for name, command in sorted(group.commands.items()):
        context = click.Context(command, info_name=name, parent=parent)
        yield _section(command, context)
        if isinstance(command, click.Group):
            yield from _sections(command, context)


def _section(command: click.Command, context: click.Context) -> str:
    title = context.command_path.removeprefix("kinesis-assets ")
    usage = f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}"
    description = inspect.cleandoc(command.help or "")
    return "\n".join([f"## {title}\n", description, f"\n```\n{usage}\n```\n", *_options(context), ""])


def _options(context: click.Context) -> Iterator[str]:
    for option in context.command.params:
        if not isinstance(option, click.Option):
            continue  # an argument is in the usage, and the command's text describes it
        if (record := option.get_help_record(context)) is not None:
            names, description = record
            text = " ".join(description.split()).replace("] [", "; ")  # Markdown would read a link
            yield f"- `{names}`: {text}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference())
