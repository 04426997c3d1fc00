"""The manifest that a landing's task returns to the driver: its files and its shards.

A manifest is MessagePack of declared types. It is never pickled, because a Spark Connect server must not be
able to run code in the process of a run.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kinesis_assets import errors
from kinesis_assets.errors import LandingFailed, ShardError
from kinesis_assets.ingest.reading_facts import ReadingFacts, Time
from kinesis_assets.kinesis.reading.range import RangeEnd
from kinesis_assets.table.data_files.data_file import DataFile
from kinesis_assets.table.positions.range_stats import RangeStats

if TYPE_CHECKING:
    from collections.abc import Iterable


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
        shard_id: The shard.
        stats: The facts about its range and about its rows in the files.
        end: Why the range ended; None if an error ended it.
        error: The error that ended the range; None if there was none.
    """

    shard_id: str
    stats: RangeStats
    end: RangeEnd | None
    error: ShardError | None


class ShardLanding(ShardResult, frozen=True, forbid_unknown_fields=True):
    """The result of reading one shard. The files hold every row it counts.

    Attributes:
        facts: The facts about reading it.
        tip_time: The service's time when the read reached the shard's tip; None if it did not.
    """

    facts: ReadingFacts
    tip_time: Time | None


class Landing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a landing: its files and its shards. Nothing is committed yet."""

    files: tuple[DataFile, ...] = ()
    shards: tuple[ShardLanding, ...] = ()

    def __add__(self, other: Landing) -> Landing:
        return Landing(self.files + other.files, self.shards + other.shards)

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
        kind: The type of the manifests.

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
