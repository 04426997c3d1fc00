"""What commands print: rows and a progress bar, to a standard output that may be closed or full."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from kinesis_assets.errors import KinesisAssetsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from _typeshed import ReadableBuffer

    from kinesis_assets.table.run_files.task_files import Progress


_STDOUT, _STDERR = 1, 2


class OutputFailed(KinesisAssetsError):
    """The result of a command could not be printed to standard output. The command did its work."""


class _Output(io.RawIOBase):
    """The file descriptor of standard output."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return os.isatty(_STDOUT)

    def fileno(self) -> int:
        return _STDOUT

    def write(self, content: ReadableBuffer, /) -> int:
        try:
            return os.write(_STDOUT, content)
        except OSError as error:
            # Writing the remaining buffers would fail again when the interpreter exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)
            reason = os.strerror(error.errno or 0)
            raise OutputFailed(
                f"standard output: {reason}. The command did its work, but its result could not be printed; "
                "redirect it to a file, or to a program that reads all of it"
            ) from None


def guard_output() -> None:
    """Make printing raise `OutputFailed` if standard output is closed or full.

    Closed standard descriptors are opened for reading, so that writing to them fails. Otherwise the next file
    that is opened would get their number, and the output of child processes would be written into it.
    """
    while (number := os.open(os.devnull, os.O_RDONLY)) <= _STDERR:
        os.set_inheritable(number, True)
    os.close(number)
    if sys.stdout is sys.__stdout__:
        buffer = io.BufferedWriter(_Output())
        if sys.stdout is None:
            sys.stdout = io.TextIOWrapper(buffer, "utf-8")
            return
        before = sys.stdout
        by_line = before.line_buffering or before.write_through  # a terminal, or PYTHONUNBUFFERED
        sys.stdout = io.TextIOWrapper(buffer, before.encoding, before.errors, line_buffering=by_line)


def print_rows(rows: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    """Print rows with the same columns, as JSON lines, or as a table without their common stream."""
    if as_json:
        for row in rows:
            click.echo(json.dumps(row))
        return
    table = [{name: _cell(value) for name, value in row.items() if name != "stream"} for row in rows]
    if table:
        _print_table([list(table[0]), *(row.values() for row in table)])


def print_plan(stream: str, changes: Iterable[Mapping[str, Any]], *, applied: bool, as_json: bool) -> None:
    """Print the changes of a stream, and how to apply them if they were only planned."""
    print_rows([{"stream": stream, **change} for change in changes], as_json=as_json)
    if not applied:
        click.echo("Nothing was changed. Add --apply to apply the change.", err=True)


def _print_table(lines: Sequence[Iterable[str]]) -> None:
    lines = [list(line) for line in lines]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(padded).rstrip())


def _cell(value: Any) -> str:
    if value is None or value == []:
        return "-"
    return ", ".join(value) if isinstance(value, list) else str(value)


@contextmanager
def progress_bar(title: str, *, as_json: bool) -> Iterator[None]:
    """Show a bar while the context is entered, if standard output and standard error are a terminal.

    It is indeterminate until the tasks of Spark report how far they are, see `run_log`. Maintenance has none.
    """
    if as_json or not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield
        return
    from rich.console import Console  # only on a terminal
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    from kinesis_assets.dagster.steps.run_log import progress_shown_by

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[read]}"),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, read="")

        def show(progress: Progress) -> None:
            bar.update(task, total=100, completed=progress.percent, read=_read(progress))

        with progress_shown_by(show):
            yield


def _read(progress: Progress) -> str:
    return f"{progress.records:,} records, {progress.bytes / 1e6:,.1f} MB"
