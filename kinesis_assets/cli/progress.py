"""A bar on the terminal that shows how far a long command is. There is none in pipes and with `--json`."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.table.run_files.task_files import Progress


@contextmanager
def progress_bar(title: str, *, as_json: bool) -> Iterator[None]:
    """Show a bar while the context is entered, if standard output and standard error are a terminal.

    It is indeterminate until the tasks of Spark report how far they are, see `run_log`. Maintenance has none.

    Args:
        title: What is done.
        as_json: The command prints JSON.
    """
    if as_json or not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield
        return
    from rich.console import Console  # noqa: PLC0415  # only on a terminal
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415

    from kinesis_assets.dagster.steps.run_log import progress_shown_by  # noqa: PLC0415

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
