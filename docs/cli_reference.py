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
    sections = [_section(name, command, root) for name, command in sorted(commands.commands.items())]
    return "\n".join([_INTRODUCTION, *sections])


def _section(name: str, command: click.Command, root: click.Context) -> str:
    context = click.Context(command, info_name=name, parent=root)
    usage = f"kinesis-assets {name} {' '.join(command.collect_usage_pieces(context))}"
    description = inspect.cleandoc(command.help or "")
    return "\n".join([f"## {name}\n", description, f"\n```\n{usage}\n```\n", *_options(context), ""])


def _options(context: click.Context) -> Iterator[str]:
    for option in context.command.params:
        if (record := option.get_help_record(context)) is not None:
            names, description = record
            text = " ".join(description.split()).replace("] [", "; ")  # Markdown would read a link
            yield f"- `{names}`: {text}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference())
