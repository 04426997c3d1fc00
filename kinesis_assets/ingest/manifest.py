"""The manifest that a landing's task returns to the driver: its files and its shards.

A manifest is MessagePack of declared types. It is never pickled, because a Spark Connect server must not be
able to run code in the process of a run.

A manifest comes from another process, and a commit cannot be undone. So it is first checked against the
requested ranges: it may name only new files of this attempt in the table's folder, only requested shards,
and no position before the start of its range.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import msgspec

from kinesis_assets import errors
from kinesis_assets.errors import LandingFailed, ShardError
from kinesis_assets.kinesis.position import NUMBER, PositionKind, may_return, passed
from kinesis_assets.kinesis.reading.range import RangeEnd
from kinesis_assets.table.data_file import DataFile, is_new_file
from kinesis_assets.table.positions.range_stats import RangeStats, ReadingFacts, Time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.reading.range import ShardRange


_Manifest = TypeVar("_Manifest", bound=msgspec.Struct)

MAX_BYTES = 64 << 20
"""Maximum size of a task's manifest. The manifest of 1,000 shards in 100 files takes about 3 MB."""

_SHARD_ERRORS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, ShardError)
}
"""The errors that a manifest may name, by class name: only those of this package's error tree."""


class ShardResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of a shard's result that the manifests of landings and replays share.

    Attributes:
        stats: The facts about its range and about its rows in the files. They do not contradict themselves,
            or they could not be decoded.
        end: Why the range ended; None if an error ended it.
        error: The error that did; None if there was none.
    """

    shard_id: str
    stats: RangeStats
    end: RangeEnd | None
    error: ShardError | None

    @property
    def read(self) -> int:
        """Number of records read."""
        return self.stats.rows

    @property
    def first_read(self) -> str | None:
        """Sequence number of the first record read; None if none was read."""
        return self.stats.first_sequence_number

    def checks(self, range_: ShardRange) -> Iterator[tuple[bool, str]]:
        """Yield for each check of the result of a range whether it fails, and what is wrong if it does."""
        stats = self.stats
        numbers = [self.first_read, stats.first_sequence_number, stats.last_sequence_number]
        ended_twice_or_never = (self.end is None) == (self.error is None)
        error_of_another = self.error is not None and self.error.shard_id != self.shard_id
        yield (
            ended_twice_or_never or error_of_another,
            "both an end and an error, or neither, or another shard's error",
        )
        yield stats.start != range_.start, "another start than that of the requested range"
        yield (
            stats.rows > 0 and not is_ascending([*numbers, stats.through.sequence_number]),
            "rows that are not among the records that were read",
        )
        yield (
            not is_reachable(range_, stats.through, self.read, self.first_read),
            "a position that cannot be reached from its start with these records",
        )


class ShardLanding(ShardResult, frozen=True, forbid_unknown_fields=True):
    """The result of reading one shard. The files hold every row it counts.

    Attributes:
        tip_time: The service's time when the read reached the shard's tip; None if it did not.
        refused: Why GetRecords read instead of what a subscription had received; None if it did not.
        tip_iterator: See `ShardReading.tip_iterator`.
    """

    facts: ReadingFacts
    tip_time: Time | None
    refused: str | None = None
    tip_iterator: str | None = None

    def checks(self, range_: ShardRange) -> Iterator[tuple[bool, str]]:
        """Yield the checks of every shard, and those of the facts."""
        yield from super().checks(range_)
        stats, facts = self.stats, self.facts
        arrivals = [facts.first_arrival, facts.last_arrival]
        yield (
            stats.rows > 0 and stats.last_sequence_number != stats.through.sequence_number,
            "a position that is not that of the last row",
        )
        yield facts.bad_records + facts.outside_hash_range > stats.rows, "more marked rows than rows"
        yield (
            arrivals.count(None) != (0 if stats.rows else 2),
            "rows without arrivals, or arrivals without rows",
        )
        yield any(_has_no_offset(gap) for gap in facts.gaps), "a gap whose times have no offset from UTC"


_Shard = TypeVar("_Shard", bound=ShardResult)


class JobResult(msgspec.Struct, Generic[_Shard], frozen=True, forbid_unknown_fields=True):
    """The result of a Spark job that reads shards: its files and its shards. Nothing is committed yet."""

    files: tuple[DataFile, ...] = ()
    shards: tuple[_Shard, ...] = ()

    def __add__(self, other: Self) -> Self:
        return type(self)(self.files + other.files, self.shards + other.shards)

    @classmethod
    def of(cls, contents: Iterable[object], stream: str, batch_id: int, ranges: Sequence[ShardRange]) -> Self:
        """Decode, check and add up the manifests that the tasks of a job returned.

        Args:
            contents: See `decode_all`.
            ranges: The requested ranges, each of another shard.

        Raises:
            LandingFailed: A manifest is invalid, or the manifests cannot be the result of these ranges.
        """
        subject = f"stream {stream}"
        result = sum(decode_all(subject, contents, cls), cls())
        if wrong := result.contradiction(batch_id, ranges):
            raise invalid(subject, wrong)
        return result

    def contradiction(self, batch_id: int, ranges: Sequence[ShardRange]) -> str | None:
        """Return why this cannot be the result of a batch with these ranges; None if it can."""
        rows = {shard.shard_id: shard.stats.rows for shard in self.shards}
        wrong = _wrong_shards(ranges, self.shards) or _wrong_files(batch_id, self.files, rows)
        if wrong:
            return wrong
        by_shard = {range_.shard_id: range_ for range_ in ranges}
        for shard in self.shards:
            for fails, reason in shard.checks(by_shard[shard.shard_id]):
                if fails:
                    return f"{shard.shard_id}: {reason}"
        return None


class Landing(JobResult[ShardLanding], frozen=True, forbid_unknown_fields=True):
    """The result of a landing."""

    @property
    def rows(self) -> int:
        """Number of rows in the files."""
        return sum(shard.stats.rows for shard in self.shards)

    @property
    def bytes(self) -> int:
        """Payload bytes of these rows."""
        return sum(shard.stats.bytes for shard in self.shards)


def encode(manifest: msgspec.Struct) -> bytes:
    """Encode a manifest; `decode_all` decodes it."""
    return _encoder.encode(manifest)


def decode_all(subject: str, contents: Iterable[object], kind: type[_Manifest]) -> list[_Manifest]:
    """Decode the manifests of a job's tasks.

    Args:
        subject: What the job was for, such as "stream orders", for errors.
        contents: The value that each task returned: the bytes of `encode`, unless something is wrong.

    Raises:
        LandingFailed: One of the values is not such a manifest.
    """
    return [_decoded(subject, content, kind) for content in contents]


def invalid(subject: str, reason: str) -> LandingFailed:
    """Return the error for a manifest that no task of this package can have returned."""
    return LandingFailed(
        f"{subject}: a Spark task returned an invalid manifest, nothing was committed: {reason}. Run "
        "again; if it fails again, check that the executors, or the server that SPARK_REMOTE names, are "
        "yours and have the same version of kinesis_assets"
    )


def _decoded(subject: str, content: object, kind: type[_Manifest]) -> _Manifest:
    if not isinstance(content, bytes | bytearray):
        raise invalid(subject, f"{type(content).__name__} instead of bytes")
    if len(content) > MAX_BYTES:
        raise invalid(subject, f"{len(content)} bytes, more than {MAX_BYTES}")
    try:
        manifest: _Manifest = _decoder(kind).decode(content)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise invalid(subject, str(error)) from None
    return manifest


@cache
def _decoder(kind: type[_Manifest]) -> msgspec.msgpack.Decoder[_Manifest]:
    return msgspec.msgpack.Decoder(kind, dec_hook=_from_data)


def _as_data(value: object) -> tuple[str, str, str]:
    """Convert a shard's error to its class name, the shard id and the message."""
    if isinstance(value, ShardError):
        return type(value).__name__, value.shard_id, value.sentence
    raise NotImplementedError(f"a manifest has no {type(value).__name__}")


def _from_data(kind: type[Any], data: object) -> ShardError:
    if kind is not ShardError:
        raise NotImplementedError(f"a manifest has no {kind.__name__}")
    name, shard_id, sentence = msgspec.convert(data, tuple[str, str, str])
    if name not in _SHARD_ERRORS:
        raise ValueError(f"{name[:80]!r} is not the class of a shard's error")
    return _SHARD_ERRORS[name](shard_id, sentence)


_encoder = msgspec.msgpack.Encoder(enc_hook=_as_data)


def _wrong_shards(ranges: Sequence[ShardRange], shards: Sequence[ShardResult]) -> str | None:
    requested = Counter(range_.shard_id for range_ in ranges)
    returned = Counter(shard.shard_id for shard in shards)
    if requested == returned:
        return None
    missing, other = sorted(requested - returned), sorted(returned - requested)
    return f"requested shards are missing: {missing[:3]}; shards that were not requested: {other[:3]}"


def _wrong_files(batch_id: int, files: Sequence[DataFile], rows: dict[str, int]) -> str | None:
    """Return why files are invalid; None if they are valid, and hold the number of rows of each shard id."""
    if len({file.path for file in files}) < len(files):
        return "a file is named twice"
    found: Counter[str] = Counter()
    for file in files:
        name = repr(file.path[:200])
        if file.batch_id != batch_id or not is_new_file(file):
            return f"{name} is not a file of batch {batch_id}"
        if not file.rows_by_shard or min(file.rows_by_shard.values()) < 1:
            return f"{name} has no rows"
        found.update(file.rows_by_shard)
    for shard_id in sorted(found.keys() | rows.keys()):
        in_files, expected = found[shard_id], rows.get(shard_id)
        if in_files != expected:
            return f"{shard_id[:200]!r}: {expected} rows were read, and {in_files} are in the files"
    return None


def _has_no_offset(gap: Gap) -> bool:
    return gap.until.tzinfo is None or (gap.since is not None and gap.since.tzinfo is None)


def is_reachable(range_: ShardRange, position: Position, records: int, first: str | None) -> bool:
    """Return whether a range can have been read up to a position.

    Args:
        first: Sequence number of the first record read; None if none was read.
    """
    if not records:
        return (first, position) == (None, range_.start)
    through = passed(position)
    if first is None or through is None or not is_ascending([first, position.sequence_number]):
        return False
    start, end = passed(range_.start), None if range_.up_to is None else passed(range_.up_to)
    return (
        position.kind is PositionKind.AFTER_SEQUENCE_NUMBER
        and may_return(range_.start, first)
        and (start is None or start < through)
        and (end is None or (through[0], 0) <= end)  # its last record begins before the end
    )


def is_ascending(numbers: Sequence[str | None]) -> bool:
    """Return whether all are sequence numbers, each at least as large as the one before it."""
    if not all(number is not None and NUMBER.fullmatch(number) for number in numbers):
        return False
    values = [int(number or 0) for number in numbers]
    return values == sorted(values)
