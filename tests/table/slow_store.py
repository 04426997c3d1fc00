"""A table whose store answers late, and writers of it that each read on a shard of their own.

Other processes import this module too, so it knows nothing of pytest.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from attempts import Attempt, standing

from kinesis_assets.table.delta import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kinesis_assets.table.delta import TableSnapshot
    from kinesis_assets.table.positions_chain import ChainPolicy

LOG_REQUESTS = 4
"""Requests, one after the other, that opening a table takes at least: the newest checkpoint's name, the list
of what came after it, the checkpoint, and the entries after it."""


class WatchedFiles:
    """A folder's files, and what is done before each is opened.

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
        self._opening(path)
        return self._files.open_input_file(path)

    def open_output_stream(self, path: str, **options: Any) -> Any:
        self._opening(path)
        return self._files.open_output_stream(path, **options)


class SlowTable(PositionedTable):
    """A table whose store takes so many seconds for each request."""

    def __init__(self, uri: str, seconds: float, policy: ChainPolicy | None = None) -> None:
        super().__init__(uri, policy)
        self._seconds = seconds
        self.files = WatchedFiles(self.files, lambda _: time.sleep(seconds))

    def snapshot(self) -> TableSnapshot:
        time.sleep(LOG_REQUESTS * self._seconds)
        return super().snapshot()


def commits_of_writers(uri: str, shard_ids: Sequence[str], seconds: float, most: int) -> dict[str, int]:
    """How many commits each of some writers made when all of them together had made so many.

    Args:
        uri: The table's.
        shard_ids: A writer each.
        seconds: The store takes for each request.
        most: Commits of all.
    """
    made = dict.fromkeys(shard_ids, 0)
    errors: list[Exception] = []

    def write(shard_id: str) -> None:
        table = SlowTable(uri, seconds)
        try:
            while sum(made.values()) < most and not errors:
                assert not Attempt(table, standing(table), {shard_id: 1}).commit().conflicts
                made[shard_id] += 1
        except Exception as error:  # noqa: BLE001  # raised below, in the thread that waits
            errors.append(error)

    threads = [threading.Thread(target=write, args=(shard_id,)) for shard_id in shard_ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        raise error
    return made
