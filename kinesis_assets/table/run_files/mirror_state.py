"""The state of the mirror of a table's positions: a file in its folder, written after each attempt of a run.

It says up to which commit a lease table has the positions, so that nobody has to read that table to know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.table.store.storage import replace_file

if TYPE_CHECKING:
    from kinesis_assets.table.table import PositionedTable

MIRROR_FILE = "_kinesis/mirror.json"
"""The path of the file in a table's folder."""

_MAX_ERROR = 2000
_MAX_BYTES = 1 << 16


class MirrorState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the last attempts to write a lease table have achieved.

    Attributes:
        lease_table: Name or ARN of the lease table.
        commit_id: The newest commit whose positions it has; None before the first.
        failed: How many attempts have failed since one succeeded.
        error: Why the last attempt failed; None if it succeeded.
        failing_since: When the first of the failed attempts began, in seconds since the epoch.
    """

    lease_table: str
    commit_id: int | None = None
    failed: int = 0
    error: str | None = None
    failing_since: float | None = None

    def has(self, commit_id: int) -> bool:
        """Return whether the lease table has the positions of a commit, or of a later one."""
        return self.commit_id is not None and self.commit_id >= commit_id

    def after_success(self, commit_id: int) -> MirrorState:
        """Return the state after an attempt that has written the positions of a commit."""
        newest = max(commit_id, self.commit_id or 0)  # the mirror of another run may be ahead
        return MirrorState(lease_table=self.lease_table, commit_id=newest)

    def after_failure(self, error: str, began: float) -> MirrorState:
        """Return the state after an attempt that has failed.

        Args:
            began: When the attempt began, in seconds since the epoch.
        """
        return msgspec.structs.replace(
            self,
            failed=self.failed + 1,
            error=error[:_MAX_ERROR],
            failing_since=began if self.failing_since is None else self.failing_since,
        )


def read_mirror_state(table: PositionedTable, lease_table: str) -> MirrorState:
    """Return the state of a mirror. A file that is damaged, or of another lease table, counts as none.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        with table.files.open_input_file(MIRROR_FILE) as source:
            state = msgspec.json.decode(source.read(_MAX_BYTES), type=MirrorState)
    except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError, UnicodeDecodeError):
        return MirrorState(lease_table=lease_table)
    return state if state.lease_table == lease_table else MirrorState(lease_table=lease_table)


def write_mirror_state(table: PositionedTable, state: MirrorState) -> None:
    """Replace the state of a mirror.

    Raises:
        OSError: The file cannot be written.
    """
    replace_file(table.files, MIRROR_FILE, msgspec.json.encode(state))
