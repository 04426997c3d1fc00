"""Which shards runs read with GetRecords although the stream has a consumer: a file in the table's folder.

So the asset check of the consumer knows it also when no run is in progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.table.store.storage import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.table.table import PositionedTable

CONSUMER_FILE = "_kinesis/consumer.json"
"""The path of the file in a table's folder."""

_MAX_REASON = 2000
_MAX_BYTES = 1 << 22


class Fallback(msgspec.Struct, frozen=True):
    """Why a shard is read with GetRecords.

    Attributes:
        since: Since when, in seconds since the epoch.
        reason: The last known reason.
    """

    since: float
    reason: str


class ConsumerState(msgspec.Struct, frozen=True):
    """The shards that are read with GetRecords instead of a consumer.

    Attributes:
        consumer: The name or ARN of the consumer.
        shards: Why, by shard id.
    """

    consumer: str
    shards: dict[str, Fallback]

    def after(self, reasons: Mapping[str, str | None], now: float) -> ConsumerState:
        """Return the state after some shards were read.

        Args:
            reasons: Why they were read with GetRecords, by shard id; None if they were read by the consumer.
            now: The time, in seconds since the epoch.
        """
        shards = {shard_id: each for shard_id, each in self.shards.items() if shard_id not in reasons}
        for shard_id, reason in reasons.items():
            if reason is not None:
                before = self.shards.get(shard_id)
                since = now if before is None else before.since
                shards[shard_id] = Fallback(since, reason[:_MAX_REASON])
        return ConsumerState(self.consumer, shards)


def read_consumer_state(table: PositionedTable, consumer: str) -> ConsumerState:
    """Return the state of a consumer. A file that is damaged, or of another consumer, counts as none.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        with table.files.open_input_file(CONSUMER_FILE) as source:
            state = msgspec.json.decode(source.read(_MAX_BYTES), type=ConsumerState)
    except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError, UnicodeDecodeError):
        return ConsumerState(consumer, {})
    return state if state.consumer == consumer else ConsumerState(consumer, {})


def write_consumer_state(table: PositionedTable, state: ConsumerState) -> None:
    """Replace the state of a consumer.

    Raises:
        OSError: The file cannot be written.
    """
    replace_file(table.files, CONSUMER_FILE, msgspec.json.encode(state))
