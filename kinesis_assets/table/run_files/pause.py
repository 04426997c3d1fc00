"""The pause of a stream: a file in its table's folder, so that every deployment and process honors it.

A file that cannot be read counts neither as a pause nor as none: runs are refused with an error that says so.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import InvalidInput, PauseUnreadable, StreamPaused
from kinesis_assets.table.store.storage import DAMAGED, not_writable, replace_file

if TYPE_CHECKING:
    from kinesis_assets.table.raw_table import PositionedTable

PAUSE_FILE = "_kinesis/pause.json"
"""The path of the file in a table's folder."""

RESUME = "kinesis-assets resume"
"""The command that ends a pause, without its options."""

_FORMAT = 2
"""The format number that this release writes. It is raised with every change that an older release must not
read."""

_MAX_REASON = 500
_MAX_BYTES = 1 << 16

_WAY_OUT = (
    "so it is unknown whether the stream is paused; nothing was changed. To delete the file, run "
    "`kinesis-assets resume`; to replace it, run `kinesis-assets pause`"
)


class Pause(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a stream is paused.

    Attributes:
        format: `_FORMAT` of the writer.
        at: When, UTC (clock of the machine that paused it).
        command: The whole command that resumes it. Files of format 1 do not have it.
    """

    format: int
    reason: str
    by: str
    at: datetime
    command: str = RESUME

    def __str__(self) -> str:
        return (
            f"paused by {self.by} since {self.at:%Y-%m-%dT%H:%M:%SZ}: {self.reason}. "
            f"To continue, run `{self.command}`"
        )


def read_pause(table: PositionedTable) -> Pause | None:
    """Return the pause of a table's stream; None if it is not paused, or the table does not exist.

    Raises:
        PauseUnreadable: There is a file, or may be one, but it cannot be read.
    """
    try:
        with table.files.open_input_file(PAUSE_FILE) as source:
            content: bytes = source.read(_MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise PauseUnreadable(table.uri, f"{PAUSE_FILE} cannot be read ({error}), {_WAY_OUT}") from None
    try:
        pause = msgspec.json.decode(content, type=Pause)
    except DAMAGED as error:
        raise PauseUnreadable(table.uri, f"{PAUSE_FILE} is damaged ({error}), {_WAY_OUT}") from None
    if pause.format > _FORMAT:
        raise PauseUnreadable(
            table.uri, f"{PAUSE_FILE} has format {pause.format}, which a newer release wrote, {_WAY_OUT}"
        )
    return pause


def refuse_paused(stream: str, table: PositionedTable) -> None:
    """Check that a stream is not paused.

    Raises:
        StreamPaused: It is paused.
        PauseUnreadable: It is not known whether it is.
    """
    pause = read_pause(table)
    if pause is not None:
        raise StreamPaused(stream, f"{pause}. Nothing was changed")


def pause(table: PositionedTable, *, reason: str, by: str, at: datetime, command: str = RESUME) -> Pause:
    """Pause the stream of a table, which exists, or replace the reason of its pause. See `Pause`.

    Raises:
        InvalidInput: The reason is empty or too long.
        TableNotWritable: The table cannot be written to.
        PauseUnreadable: The same, but a retry may succeed.
    """
    sentence = " ".join(reason.split()).rstrip(".")
    if not sentence.isprintable() or not 0 < len(sentence) <= _MAX_REASON:
        raise InvalidInput(f"invalid reason: give 1 to {_MAX_REASON} printable characters")
    new = Pause(format=_FORMAT, reason=sentence, by=by, at=at, command=command)
    try:
        replace_file(table.files, PAUSE_FILE, msgspec.json.format(msgspec.json.encode(new), indent=1))
    except OSError as error:
        raise not_writable(table.uri, error, "The stream was not paused.") or PauseUnreadable(
            table.uri, f"{PAUSE_FILE} cannot be written, so the stream was not paused: {error}. Try again"
        ) from None
    return new


def resume(table: PositionedTable) -> None:
    """End the pause of a table's stream, if there is one, also if its file is damaged.

    Raises:
        TableNotWritable: The file cannot be deleted, and the stream stays paused.
        PauseUnreadable: The same, but a retry may succeed.
    """
    try:
        table.files.delete_file(PAUSE_FILE)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise not_writable(table.uri, error, "The stream was not resumed.") or PauseUnreadable(
            table.uri, f"{PAUSE_FILE} cannot be deleted, so the stream was not resumed: {error}. Try again"
        ) from None
