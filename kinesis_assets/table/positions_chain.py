"""The chain of a table's positions files and its archive: reading it, and writing the next file of it.

Every file is immutable and named by its token, and nothing points at a file before it is written whole: first
a segment of the archive, if one is due, then the positions file, and last the table's log (see `commit`). Who
dies between two of these leaves files that nothing names, which maintenance deletes, and the positions
before.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import msgspec

from kinesis_assets.errors import PositionsUnreadable, TableUnreachable
from kinesis_assets.table import positions_archive, positions_file
from kinesis_assets.table.commit_ids import draw_token
from kinesis_assets.table.file_cache import FileCache
from kinesis_assets.table.positions_archive import ARCHIVE_FOLDER, Segment
from kinesis_assets.table.positions_file import ArchiveEnd, CommitRef, Stored
from kinesis_assets.table.storage import write_new

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    import pyarrow.fs

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.positions import Header, ShardPosition, StreamPositions

POSITIONS_FOLDER = "_kinesis/positions"

_MEMORY_A_BYTE = 16
_MEMORY_A_SHARD = 100
"""About what a file that was read takes: for each of its bytes, and for each shard that others have too."""

_AT_ONCE = 16

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class ChainPolicy:
    """When a positions file holds everything, and when shards go to the archive.

    Attributes:
        most_files: Files with the same base, at the most. Each names the commits since the base.
        least_carried: A new base is written when its files have together written more shards again than
            there are, and more than these: what a base costs is then less than what it saves.
        least_archived: Shards that one segment of the archive holds, at the least.
    """

    most_files: int = 64
    least_carried: int = 1000
    least_archived: int = 256


class PositionsChain:
    """The positions files and the archive of one table.

    Files that were read are kept in memory, so a process reads each of them once.

    Args:
        table: The table's URI, for errors.
        files: Gives the table's folder.
        policy: How files are written.

    Attributes:
        files_read: How many files were read from the table's folder so far.
    """

    def __init__(
        self, table: str, files: Callable[[], pyarrow.fs.FileSystem], policy: ChainPolicy | None = None
    ) -> None:
        self.files_read = 0
        self._table = table
        self._files = files
        self._policy = policy or ChainPolicy()
        self._cache = FileCache()

    # Positions

    def positions_at(self, token: int) -> StreamPositions:
        """The positions of a token, whether the log points at them or not.

        Raises:
            PositionsUnreadable: Their file or its base is missing, not understood, or another one.
            TableUnreachable: It cannot be read now.
        """
        return self._stored(token).positions

    def header_at(self, token: int) -> Header:
        """What the positions file of a token begins with, whatever its size. Raises as `positions_at`."""
        path = positions_path(token)
        content = self._content(path, positions_file.HEADER_BYTES)
        header = self._decoded(path, positions_file.decode_header, content)
        if header is None:
            header = self._decoded(path, positions_file.decode_whole_header, self._content(path))
        self._refuse_another(path, header.token, token)
        return header

    def commits_before(self, positions: StreamPositions) -> Iterator[CommitRef]:
        """The commits before some positions, newest first, down to the chain's beginning.

        Each file names those since its base, so that few files are read. Raises as `positions_at`.
        """
        stored = self._stored(positions.token)
        while True:
            yield from stored.down_to_base
            if stored.before_base is None:
                return
            stored = self._stored(stored.before_base)
            if stored.positions.identity.arn != positions.identity.arn:
                raise PositionsUnreadable(
                    self._table,
                    f"{positions_path(stored.positions.token)} is of {stored.positions.identity.arn}, not of "
                    f"{positions.identity.arn}. Restore that very file; no other will do",
                )
            yield CommitRef(stored.positions.token, stored.positions.batch_id)

    def write(self, positions: StreamPositions, retired: Collection[str] = ()) -> None:
        """Write the file of new positions; nothing points at it yet.

        Args:
            positions: Those after the ones that they name as previous.
            retired: Finished shards that the stream no longer lists. They go to the archive with one of the
                next bases.

        Raises:
            PositionsUnreadable: The file before is missing or not understood.
            TableUnreachable: The file before cannot be read now.
            OSError: The file cannot be written.
        """
        before = None if positions.previous is None else self._stored(positions.previous)
        if before is None or before.positions.identity != positions.identity:
            self._put(positions_path(positions.token), positions_file.encode(positions))
            return
        positions = self._without_recalled(before, positions)
        following, base = self._following(before, positions)
        if base is not None:
            content = positions_file.encode_changes(following, base)
        else:
            archive = before.archive
            shards = {key: shard for key, shard in positions.shards.items() if key in retired}
            if len(shards) >= self._policy.least_archived:
                archive = self._archive(positions.identity, shards, archive)
                kept = {key: shard for key, shard in positions.shards.items() if key not in retired}
                positions = msgspec.structs.replace(positions, shards=kept)
            content = positions_file.encode(positions, archive)
        self._put(positions_path(positions.token), content)

    def _following(self, before: Stored, positions: StreamPositions) -> tuple[Stored, StreamPositions | None]:
        """What the next file holds, and its base; None if it is to be one."""
        newest = before.positions
        base = newest if before.base is None else self.positions_at(before.base)
        unchanged = _changed(base, positions) - _changed(newest, positions)
        repeated = before.repeated + max(0, unchanged)
        stored = Stored(
            positions,
            down_to_base=(CommitRef(newest.token, newest.batch_id), *before.down_to_base),
            before_base=before.before_base,
            base=base.token,
            repeated=repeated,
            archive=before.archive,
        )
        is_due = (
            newest.format < positions.format
            or len(before.down_to_base) >= self._policy.most_files
            or repeated > max(len(base.shards), self._policy.least_carried)
        )
        return stored, None if is_due else base

    def _without_recalled(self, before: Stored, positions: StreamPositions) -> StreamPositions:
        """Without shards that were taken from the archive and are as they are there."""
        new = [
            shard_id
            for shard_id, shard in positions.shards.items()
            if shard.finished and shard_id not in before.positions.shards
        ]
        archived = self._archived(before.archive, new)
        same = {shard_id for shard_id, shard in archived.items() if positions.shards[shard_id] == shard}
        if not same:
            return positions
        kept = {shard_id: shard for shard_id, shard in positions.shards.items() if shard_id not in same}
        return msgspec.structs.replace(positions, shards=kept)

    # The archive

    def recall(self, positions: StreamPositions, shard_ids: Iterable[str]) -> StreamPositions:
        """Positions with those of some shards that are in the archive alone. Raises as `positions_at`."""
        absent = [shard_id for shard_id in shard_ids if shard_id not in positions.shards]
        if not absent:
            return positions
        found = self._archived(self._stored(positions.token).archive, absent)
        return msgspec.structs.replace(positions, shards=positions.shards | found) if found else positions

    def archived(self, positions: StreamPositions) -> Mapping[str, ShardPosition]:
        """All shards in the archive of some positions, by shard id. Raises as `positions_at`."""
        found: dict[str, ShardPosition] = {}
        for segment in self._segments(self._stored(positions.token).archive):
            found |= segment.shards
        return found

    def segments(self, positions: StreamPositions) -> frozenset[int]:
        """The tokens of the segments that some positions name. Raises as `positions_at`."""
        end = self._stored(positions.token).archive
        if end is None:
            return frozenset()
        return frozenset({end.newest, *self._segment(end.newest).earlier})

    def stream_of_segment(self, token: int) -> StreamIdentity:
        """Which stream a segment is of. Raises as `positions_at`."""
        return self._segment(token).identity

    def _archived(self, end: ArchiveEnd | None, shard_ids: Iterable[str]) -> dict[str, ShardPosition]:
        wanted = [] if end is None else [shard_id for shard_id in shard_ids if shard_id <= end.last]
        if not wanted:
            return {}
        found: dict[str, ShardPosition] = {}
        for segment in self._segments(end):
            found |= {key: segment.shards[key] for key in wanted if key in segment.shards}
        return found

    def _segments(self, end: ArchiveEnd | None) -> Iterator[Segment]:
        """All of an archive, oldest first."""
        if end is None:
            return
        newest = self._segment(end.newest)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            yield from pool.map(self._segment, newest.earlier)
        yield newest

    def _archive(
        self, identity: StreamIdentity, shards: dict[str, ShardPosition], end: ArchiveEnd | None
    ) -> ArchiveEnd:
        earlier = () if end is None else (*self._segment(end.newest).earlier, end.newest)
        segment = Segment(identity, draw_token(), earlier, shards)
        self._put(segment_path(segment.token), positions_archive.encode(segment))
        if end is None:
            return ArchiveEnd(segment.token, len(shards), max(shards))
        return ArchiveEnd(segment.token, end.shards + len(shards), max(end.last, *shards))

    # Files

    def _stored(self, token: int) -> Stored:
        path = positions_path(token)
        found: Stored | None = self._cache.get(path)
        if found is None:
            content = self._content(path)
            found = self._decoded(path, lambda read: positions_file.read(read, self.positions_at), content)
            self._refuse_another(path, found.positions.token, token)
            size = _MEMORY_A_BYTE * len(content) + _MEMORY_A_SHARD * len(found.positions.shards)
            self._cache.put(path, found, size)
        return found

    def _segment(self, token: int) -> Segment:
        path = segment_path(token)
        found: Segment | None = self._cache.get(path)
        if found is None:
            content = self._content(path)
            found = self._decoded(path, positions_archive.decode, content)
            self._refuse_another(path, found.token, token)
            self._cache.put(path, found, _MEMORY_A_BYTE * len(content))
        return found

    def _refuse_another(self, path: str, found: int, token: int) -> None:
        if found != token:
            raise PositionsUnreadable(
                self._table,
                f"{path} has the content of {found}.json: it was overwritten or restored from another "
                "file. Restore that very file; no other will do",
            )

    def _content(self, path: str, size: int | None = None) -> bytes:
        self.files_read += 1
        return read_file(self._table, self._files(), path, size)

    def _decoded(self, path: str, decode: Callable[[bytes], _Read], content: bytes) -> _Read:
        return decoded(self._table, path, decode, content)

    def _put(self, path: str, content: bytes) -> None:
        write_file(self._files(), path, content)


def write_file(files: pyarrow.fs.FileSystem, path: str, content: bytes) -> None:
    """Write a file that the table's log is to point at.

    Raises:
        OSError: It cannot be written.
    """
    with write_new(files, path) as sink:
        sink.write(content)


def read_file(table: str, files: pyarrow.fs.FileSystem, path: str, size: int | None = None) -> bytes:
    """A file that the table's log points at, or another such file; its first bytes only, if a size is given.

    Raises:
        PositionsUnreadable: It is missing.
        TableUnreachable: It cannot be read now.
    """
    try:
        with files.open_input_file(path) as source:
            content: bytes = source.read(size)
    except FileNotFoundError as error:
        raise PositionsUnreadable(
            table, f"{path}, which the log points at, is gone. Restore that very file; no other will do"
        ) from error
    except OSError as error:
        raise TableUnreachable(table, f"{path} cannot be read: {error}") from None
    return content


def decoded(table: str, path: str, decode: Callable[[bytes], _Read], content: bytes) -> _Read:
    """What a file holds.

    Raises:
        PositionsUnreadable: It is not understood.
    """
    try:
        return decode(content)
    except msgspec.MsgspecError as error:
        raise PositionsUnreadable(
            table,
            f"{path} is not understood: {error}. Restore that very file, no other will do; or upgrade, if a "
            "newer version wrote it",
        ) from error


def positions_path(token: int) -> str:
    """Where the positions file of a token is."""
    return f"{POSITIONS_FOLDER}/{token}.json"


def segment_path(token: int) -> str:
    """Where the segment of a token is."""
    return f"{ARCHIVE_FOLDER}/{token}.json"


def _changed(before: StreamPositions, now: StreamPositions) -> int:
    """How many shards differ."""
    known = before.shards
    return sum(
        known.get(shard_id) is not shard and known.get(shard_id) != shard
        for shard_id, shard in now.shards.items()
    )
