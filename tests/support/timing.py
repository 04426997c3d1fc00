"""Timings and policies with which nothing waits longer than it must, and sizes of pages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kinesis_assets.kinesis.settings import ReadTiming
from kinesis_assets.retry import Backoff, RetryPolicy
from kinesis_assets.table.policy import CommitRetries, TablePolicy

if TYPE_CHECKING:
    from kinesis_assets.kinesis.client import StreamClient

NO_WAIT = Backoff(0.0, 0.0)

READING = ReadTiming(
    seconds_between_calls=0.0,
    page_retries=RetryPolicy(6, NO_WAIT),
    wait_jitter=0.0,
    list_retries=RetryPolicy(4, NO_WAIT),
)
"""No call waits for its turn, and no retry waits."""

EXACT = ReadTiming(wait_jitter=0.0)
"""Calls wait exactly as long as the rates of a shard demand."""

WRITING = TablePolicy(commits=CommitRetries(backoff=NO_WAIT))
"""A failed try to commit is repeated at once."""

REPLAYING = RetryPolicy(8, NO_WAIT)
"""A replay that another one overtook is attempted again at once."""


def set_page_sizes(client: StreamClient, **fields: int) -> None:
    """Change fields of `PageSizes` for a client's readings from now on."""
    client.settings = replace(client.settings, page_sizes=replace(client.settings.page_sizes, **fields))


def set_timing(client: StreamClient, **fields: Any) -> None:
    """Change fields of `ReadTiming` for a client's readings from now on."""
    client.settings = replace(client.settings, timing=replace(client.settings.timing, **fields))
