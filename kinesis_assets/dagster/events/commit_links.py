"""The segments of a chain of commits, and the events that belong to its commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import msgspec

from kinesis_assets.dagster.events.metadata import commit_metadata
from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.ingest.outcome import ShardState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.table.positions.commit_link import CommitLink

EventKey = tuple[str, str]
"""Identifies the event of a shard in a commit: the batch id as text, and the shard id."""

FILLED = "filled"
"""The state in a shard's event after a replay added rows behind its position."""

_MAX_COMMITS_BETWEEN = 10
"""The maximum number of commits between two segments that are joined, which are then compared again. Without
a limit, a run that never ends would keep every later commit."""


class ChainSegment(msgspec.Struct, frozen=True, array_like=True):
    """A segment of a chain.

    Attributes:
        newest: The newest commit id, inclusive.
        until: The commit id before the oldest one, exclusive; None for the start of the chain.
        runs: The runs that made all commits of the segment, which waits while all of them are unfinished;
            empty for a segment that does not wait.
    """

    newest: int
    until: int | None
    runs: tuple[str, ...] = ()


def event_key(link: CommitLink, shard_id: str) -> EventKey:
    """Return the key of a shard's event."""
    return str(link.batch_id), shard_id


def event_of(link: CommitLink, names: StreamNames, shard_id: str) -> dg.AssetMaterialization:
    """Build the event of a shard whose rows a commit added."""
    state = ShardState.FINISHED if shard_id in link.finished else ShardState.COMMITTED
    metadata = commit_metadata(
        names.stream,
        FILLED if link.filled else str(state),
        link.added[shard_id],
        batch_id=link.batch_id,
    )
    return dg.AssetMaterialization(names.raw_key, partition=shard_id, metadata=metadata)


def read_links(
    link_at: Callable[[int], CommitLink], segment: ChainSegment, max_links: int, is_over: Callable[[], bool]
) -> tuple[list[CommitLink], ChainSegment | None]:
    """Read the commits of a segment, newest first, up to a number of commits or a time limit.

    Args:
        link_at: Reads the commit with a given commit id.
        segment: The segment.
        max_links: The maximum number of commits.
        is_over: Whether the time limit is reached. One commit is read in any case.

    Returns:
        The commits, and the rest of the segment; None if nothing is left to read.
    """
    links: list[CommitLink] = []
    commit_id: int | None = segment.newest
    while commit_id is not None and commit_id != segment.until:
        if len(links) >= max_links or (links and is_over()):
            return links, ChainSegment(commit_id, segment.until)
        try:
            links.append(link_at(commit_id))
        except PositionsUnreadable:
            break  # maintenance has deleted the older files
        commit_id = links[-1].previous
    return links, None


def segment_of(link: CommitLink) -> ChainSegment:
    """Return the segment that consists of one commit."""
    return ChainSegment(link.commit_id, link.previous)


def join_segments(
    segments: Iterable[ChainSegment], before: Mapping[int, int | None]
) -> Iterator[ChainSegment]:
    """Join adjacent segments, newest first, if both or neither of them wait for runs.

    Segments that wait are joined across a few commits of other runs, which are then compared again. Otherwise
    continuous runs at the same time would leave as many segments as they have commits.

    Args:
        segments: The segments, newest first.
        before: The commit id before each commit that was just read.
    """
    last: ChainSegment | None = None
    for segment in segments:
        if last is not None and bool(last.runs) == bool(segment.runs) and _is_near(last, segment, before):
            last = ChainSegment(last.newest, segment.until, tuple(dict.fromkeys((*last.runs, *segment.runs))))
            continue
        if last is not None:
            yield last
        last = segment
    if last is not None:
        yield last


def _is_near(newer: ChainSegment, older: ChainSegment, before: Mapping[int, int | None]) -> bool:
    """Whether two segments are adjacent; or, if they wait for runs, only a few commits apart."""
    commit_id = newer.until
    for _ in range(_MAX_COMMITS_BETWEEN if newer.runs else 0):
        if commit_id is None or commit_id == older.newest:
            break
        commit_id = before.get(commit_id)
    return commit_id == older.newest
