"""Reads a table's chain of positions files and its archive, and writes the next file of the chain.

Every file is immutable and named by its id. An archive segment is written before the positions file that
names it, and the positions file before the entry of the table's log (see `commit`). A process that dies in
between leaves the previous positions valid, and unreferenced files that maintenance deletes.

The archive has the finished shards that their stream no longer lists. It consists of segments, which are
immutable files. A segment holds some hundred shards and names all earlier segments; a positions file names
the newest segment. Archived shards therefore add no cost to commits and runs. For a shard that is in the
positions as well, the positions are valid; for a shard in two segments, the newer segment is.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated
from zlib import crc32

import msgspec

from kinesis_assets.kinesis.clock import MACHINE_CLOCK
from kinesis_assets.kinesis.stream import StreamIdentity
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.positions import positions_file
from kinesis_assets.table.positions.positions import FORMAT, ShardPosition
from kinesis_assets.table.positions.positions_file import (
    MAX_BYTES,
    ArchiveEnd,
    CommitRef,
    StoredPositions,
    compress,
    decompress,
    format_of,
)
from kinesis_assets.table.store.chain import MEMORY_PER_BYTE, Chain

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    import pyarrow.fs

    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.table.positions.positions import Header, StreamPositions


POSITIONS_FOLDER = "_kinesis/positions"
ARCHIVE_FOLDER = "_kinesis/archive"

_MEMORY_PER_SHARD = 100
"""Approximate memory of a shard that a decoded file shares with its base."""

_PARALLEL_READS = 16


@dataclass(frozen=True, slots=True)
class ChainPolicy:
    """When to write a new base, and when to move shards to the archive.

    Attributes:
        max_files: Maximum number of files with the same base. Each of them names the commits since the base.
        min_repeated: A new base is written once the files of the present one have together repeated more
            unchanged shards than this, and more than the base has: it then costs less than it saves.
        min_archived: Minimum number of shards in an archive segment.
    """

    max_files: int = 64
    min_repeated: int = 1000
    min_archived: int = 256


class PositionsChain:
    """The positions files and the archive of one table.

    Decoded files are cached, so a process usually reads each file once. For the arguments see `Chain`.
    """

    def __init__(
        self,
        table: str,
        files: Callable[[], pyarrow.fs.FileSystem],
        policy: ChainPolicy = ChainPolicy(),
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._policy = policy
        self._clock = clock
        self._stored = Chain(
            table,
            files,
            positions_path,
            partial(positions_file.read, base_at=self.positions_at),
            memory=lambda content, stored: (
                MEMORY_PER_BYTE * len(content) + _MEMORY_PER_SHARD * len(stored.positions.shards)
            ),
        )
        self._segments = Chain(table, files, segment_path, decode)

    @property
    def files_read(self) -> int:
        """Number of files read from the table's folder so far."""
        return self._stored.files_read + self._segments.files_read

    def positions_at(self, commit_id: int, arn: str | None = None) -> StreamPositions:
        """Read a file, with its base if it has one. The arguments and errors are those of `Chain.at`."""
        return self._stored.at(commit_id, arn).positions

    def header_at(self, commit_id: int, arn: str | None = None) -> Header:
        """Read only the header of a positions file, as `positions_at`."""
        files, read = self._stored, self._stored.content
        header = files.decoded(
            commit_id, positions_file.decode_header, read(commit_id, positions_file.HEADER_BYTES)
        )
        if header is None:
            header = files.decoded(commit_id, positions_file.decode_whole_header, read(commit_id))
        files.check(header, commit_id, arn)
        return header

    def commits_before(self, positions: StreamPositions) -> Iterator[CommitRef]:
        """Yield the commits before some positions, newest first. Raises the errors of `positions_at`.

        Each file names the commits since its base, so few files are read.
        """
        stored = self._stored.at(positions.commit_id)
        while True:
            yield from stored.down_to_base
            if stored.before_base is None:
                return
            stored = self._stored.at(stored.before_base, positions.arn)
            yield CommitRef(stored.commit_id, stored.positions.batch_id)

    def since(self, newest: StreamPositions, expected: int | None) -> Iterator[CommitRef]:
        """Yield the commits of a chain, newest first, down to an expected one, as `Chain.since`."""
        for commit in chain([CommitRef(newest.commit_id, newest.batch_id)], self.commits_before(newest)):
            if commit.commit_id == expected:
                return
            yield commit
        if expected is not None:
            raise self._stored.lacks(expected)

    def back_from(self, newest: StreamPositions) -> Iterator[StreamPositions]:
        """Yield positions and those before them, newest first. Raises the errors of `positions_at`."""
        return (stored.positions for stored in self._stored.back_from(StoredPositions(newest)))

    def write(self, positions: StreamPositions, retired: Collection[str] = ()) -> None:
        """Write the file of new positions: all shards, or only the changes since its base.

        The log does not point at it yet.

        Args:
            retired: Finished shards that are no longer listed, to be archived with one of the next bases.

        Raises:
            PositionsUnreadable: The previous file is missing or damaged.
            TableUnreachable: The previous file cannot be read at present.
            OSError: The file cannot be written.
        """
        before = None if positions.previous is None else self._stored.at(positions.previous)
        if before is None or before.positions.identity != positions.identity:
            self._stored.put(positions.commit_id, positions_file.encode(positions))
            return
        positions = self._without_archived(before, positions)
        stored, base = self._successor(before, positions)
        if base is not None:
            content = positions_file.encode_changes(stored, base)
        else:
            archive = before.archive
            shards = {key: shard for key, shard in positions.shards.items() if key in retired}
            if len(shards) >= self._policy.min_archived:
                archive = self._extended(positions.identity, shards, archive)
                kept = {key: shard for key, shard in positions.shards.items() if key not in retired}
                positions = msgspec.structs.replace(positions, shards=kept)
            content = positions_file.encode(positions, archive)
        self._stored.put(positions.commit_id, content)

    def _successor(
        self, before: StoredPositions, positions: StreamPositions
    ) -> tuple[StoredPositions, StreamPositions | None]:
        """Return the content of the next file, and the positions of its base; None if it is to be a base."""
        newest = before.positions
        base = newest if before.base is None else self.positions_at(before.base)
        # The shards that differ from the base, but do not change in this commit, are written once more.
        repeated_here = _changed(base, positions) - _changed(newest, positions)
        repeated = before.repeated + max(0, repeated_here)
        stored = StoredPositions(
            positions,
            down_to_base=(CommitRef(newest.commit_id, newest.batch_id), *before.down_to_base),
            before_base=before.before_base,
            base=base.commit_id,
            repeated=repeated,
            archive=before.archive,
        )
        is_due = (
            newest.format < positions.format
            or len(before.down_to_base) >= self._policy.max_files
            or repeated > max(len(base.shards), self._policy.min_repeated)
        )
        return stored, None if is_due else base

    def _without_archived(self, before: StoredPositions, positions: StreamPositions) -> StreamPositions:
        """Leave out shards that were read from the archive and have not changed since."""
        new = [
            shard_id
            for shard_id, shard in positions.shards.items()
            if shard.finished and shard_id not in before.positions.shards
        ]
        archived = self._archived(before, new)
        same = {shard_id for shard_id, shard in archived.items() if positions.shards[shard_id] == shard}
        if not same:
            return positions
        kept = {shard_id: shard for shard_id, shard in positions.shards.items() if shard_id not in same}
        return msgspec.structs.replace(positions, shards=kept)

    def with_archived(self, positions: StreamPositions, shard_ids: Iterable[str]) -> StreamPositions:
        """Add those of some shards that are only in the archive. Raises the errors of `positions_at`."""
        absent = [shard_id for shard_id in shard_ids if shard_id not in positions.shards]
        if not absent:
            return positions
        found = self._archived(self._stored.at(positions.commit_id), absent)
        return msgspec.structs.replace(positions, shards=positions.shards | found) if found else positions

    def archived(self, positions: StreamPositions) -> Mapping[str, ShardPosition]:
        """Return all archived shards by shard id. Raises the errors of `positions_at`."""
        found: dict[str, ShardPosition] = {}
        for segment in self._archive(self._stored.at(positions.commit_id)):
            found |= segment.shards
        return found

    def with_all_archived(self, positions: StreamPositions) -> StreamPositions:
        """Add each shard that is only in the archive. Raises the errors of `positions_at`."""
        archived = self.archived(positions)
        if not archived:
            return positions
        return msgspec.structs.replace(positions, shards={**archived, **positions.shards})

    def newest_segment(self, positions: StreamPositions) -> int | None:
        """Return the id of the newest archive segment, which changes whenever the archive does.

        Raises the errors of `positions_at`.
        """
        end = self._stored.at(positions.commit_id).archive
        return None if end is None else end.newest

    def segments(self, positions: StreamPositions) -> frozenset[int]:
        """Return the ids of all archive segments. Raises the errors of `positions_at`."""
        end = self._stored.at(positions.commit_id).archive
        if end is None:
            return frozenset()
        return frozenset({end.newest, *self._segments.at(end.newest, positions.arn).earlier})

    def stream_of_segment(self, segment_id: int) -> StreamIdentity:
        """Return the stream that a segment belongs to. Raises the errors of `positions_at`."""
        return self._segments.at(segment_id).identity

    def _archived(self, stored: StoredPositions, shard_ids: Iterable[str]) -> dict[str, ShardPosition]:
        end = stored.archive
        wanted = [] if end is None else [shard_id for shard_id in shard_ids if shard_id <= end.last]
        if not wanted:
            return {}
        found: dict[str, ShardPosition] = {}
        for segment in self._archive(stored):
            found |= {key: segment.shards[key] for key in wanted if key in segment.shards}
        return found

    def _archive(self, stored: StoredPositions) -> Iterator[Segment]:
        """Yield all segments of an archive, oldest first."""
        if stored.archive is None:
            return
        newest = self._segments.at(stored.archive.newest, stored.arn)
        with ThreadPoolExecutor(_PARALLEL_READS) as pool:
            yield from pool.map(lambda each: self._segments.at(each, stored.arn), newest.earlier)
        yield newest

    def _extended(
        self, identity: StreamIdentity, shards: dict[str, ShardPosition], end: ArchiveEnd | None
    ) -> ArchiveEnd:
        """Write the next segment of an archive."""
        earlier = () if end is None else (*self._segments.at(end.newest, identity.arn).earlier, end.newest)
        segment = Segment(identity, new_id(self._clock), earlier, shards)
        self._segments.put(segment.commit_id, encode(segment))
        if end is None:
            return ArchiveEnd(segment.commit_id, len(shards), max(shards))
        return ArchiveEnd(segment.commit_id, end.shards + len(shards), max(end.last, *shards))


def positions_path(commit_id: int) -> str:
    """Return the path of a positions file, relative to the table's folder."""
    return f"{POSITIONS_FOLDER}/{commit_id}.json"


def segment_path(segment_id: int) -> str:
    """Return the path of an archive segment, relative to the table's folder."""
    return f"{ARCHIVE_FOLDER}/{segment_id}.json"


def _changed(before: StreamPositions, now: StreamPositions) -> int:
    """Return the number of shards that differ."""
    known = before.shards
    return sum(
        known.get(shard_id) is not shard and known.get(shard_id) != shard
        for shard_id, shard in now.shards.items()
    )


class Segment(msgspec.Struct, frozen=True):
    """A part of the archive. It names the ids of all earlier segments, oldest first."""

    identity: StreamIdentity
    commit_id: int
    earlier: tuple[int, ...]
    shards: dict[str, ShardPosition]

    @property
    def previous(self) -> int | None:
        """The id of the segment before it."""
        return self.earlier[-1] if self.earlier else None

    @property
    def arn(self) -> str:
        """The ARN of the stream."""
        return self.identity.arn


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    identity: StreamIdentity
    segment_id: int = msgspec.field(name="token")
    earlier: tuple[int, ...]
    size: Annotated[int, msgspec.Meta(ge=0, le=MAX_BYTES)]
    shards: bytes
    check: int


def encode(segment: Segment) -> bytes:
    """Encode a segment as JSON, with the shards compressed as in a positions file."""
    whole = msgspec.json.encode(segment.shards)
    file = _File(
        FORMAT,
        segment.identity,
        segment.commit_id,
        segment.earlier,
        len(whole),
        compress(whole),
        crc32(whole),
    )
    return msgspec.json.encode(file)


def decode(content: bytes) -> Segment:
    """Decode what `encode` returned.

    Raises:
        msgspec.MsgspecError: The content is damaged, is no segment, or has a newer format.
    """
    format_of(content)
    file = msgspec.json.decode(content, type=_File)
    whole = decompress(file.shards, file.size)
    if crc32(whole) != file.check:
        raise msgspec.ValidationError("its compressed content is damaged")
    shards = msgspec.json.decode(whole, type=dict[str, ShardPosition])
    return Segment(file.identity, file.segment_id, file.earlier, shards)
