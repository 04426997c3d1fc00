"""Ten writers on shards of their own, over a store whose answers take a while: how often each commits."""

from __future__ import annotations

import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any

from benchmarks.contention import BEGINNING, LISTING, attempt
from benchmarks.section import Goal, Section, Target, table
from kinesis_assets.kinesis.shards import Shard
from kinesis_assets.kinesis.stream import StreamListing
from kinesis_assets.table.commit import freeze
from kinesis_assets.table.delta import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.table.delta import TableSnapshot

WRITERS = 10
COMMITS = 300
REQUEST_SECONDS = 0.02

_LOG_REQUESTS = 4
"""Requests, one after the other, that opening a table takes at least: the newest checkpoint's name, the list
of what came after it, the checkpoint, and the entries after it."""


class WatchedFiles:
    """A folder's files; something is done before each is opened.

    Args:
        files: The folder.
        opening: Called with the path.
    """

    def __init__(self, files: Any, opening: Callable[[str], object]) -> None:
        self._files = files
        self._opening = opening

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def open_input_file(self, path: str) -> Any:
        """As the folder's."""
        self._opening(path)
        return self._files.open_input_file(path)

    def open_output_stream(self, path: str, **options: Any) -> Any:
        """As the folder's."""
        self._opening(path)
        return self._files.open_output_stream(path, **options)


class SlowTable(PositionedTable):
    """A table whose store takes so many seconds for each request."""

    def __init__(self, uri: str, seconds: float) -> None:
        super().__init__(uri)
        self._seconds = seconds
        self.files = WatchedFiles(self.files, lambda _: time.sleep(seconds))

    def snapshot(self) -> TableSnapshot:
        """As of any table, later."""
        time.sleep(_LOG_REQUESTS * self._seconds)
        return super().snapshot()


def commits_of_each(uri: str, *, writers: int, commits: int, seconds: float) -> list[int]:
    """How many commits each of some writers made when all of them together had made so many.

    Args:
        uri: Where the table is to be.
        writers: Each in a thread, on a shard of its own, without a pause.
        commits: Of all.
        seconds: The store takes for each request.

    Raises:
        TableError: A commit did not come about.
    """
    shard_ids = [f"shardId-{number:012}" for number in range(writers)]
    shards = [Shard(shard_id, (), ("0", "9"), "1") for shard_id in shard_ids]
    listing = StreamListing(LISTING.summary, shards)
    freeze(PositionedTable(uri), listing, dict.fromkeys(shard_ids, BEGINNING))
    made = dict.fromkeys(shard_ids, 0)
    errors: list[Exception] = []

    def write(shard_id: str) -> None:
        slow = SlowTable(uri, seconds)
        try:
            while sum(made.values()) < commits and not errors:
                _, landed = attempt(slow, shard_id)
                made[shard_id] += landed
        except Exception as error:  # noqa: BLE001  # raised below, in the thread that waits
            errors.append(error)

    threads = [threading.Thread(target=write, args=(shard_id,)) for shard_id in shard_ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        raise error
    return sorted(made.values())


def section(full: bool) -> Section:
    """Of the report."""
    del full
    with tempfile.TemporaryDirectory() as folder:
        made = commits_of_each(folder, writers=WRITERS, commits=COMMITS, seconds=REQUEST_SECONDS)
    mean = sum(made) / len(made)
    what = (
        f"{WRITERS} threads, each on a shard of its own, commit one record at a time without a pause, until "
        f"there are {COMMITS} commits. Each file that is opened in the table's folder takes "
        f"{REQUEST_SECONDS * 1000:.0f} ms more, and opening the table {_LOG_REQUESTS} times as long."
    )
    told = f"{made[0]} of a mean of {mean:.0f}, {made[0] / mean:.2f} of it"
    return Section(
        "Commits of many runs over a slow store",
        f"{what}\n\n{table(['commits of each'], [[', '.join(map(str, made))]])}",
        targets=[Target(Goal.FAIR_COMMITS, told, met=made[0] >= mean / 2)],
    )
