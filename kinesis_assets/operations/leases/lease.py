"""Leases of the Kinesis Client Library (KCL) 1, 2 and 3, as items of its DynamoDB table.

An item is a lease of one shard. Its key is the shard's id or, in the table of an application with several
streams, the stream's account, name and creation time, and the shard's id. Since KCL 3.5, a table also has
items of other types, which are left alone.

A checkpoint is the last record that was processed, so the application resumes after it. -1 as its
sub-sequence number is before the first sub-record: the application resumes at the record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kinesis_assets.errors import InvalidInput, LeasesRefused
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.start_positions import SHARD_END
from kinesis_assets.operations.leases.starts import ConsumerShard

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kinesis_assets.kinesis.stream import Shard, StreamIdentity
    from kinesis_assets.operations.leases.lease_table import Item, LeaseTable
    from kinesis_assets.table.positions.positions import ShardPosition

_KEY = "leaseKey"
_COUNTER = "leaseCounter"
_TYPE = "entityType"
_LEASE = "LEASE"
_OTHER_TYPES = frozenset(
    {"LEADER", "STREAM", "CLIENT_VERSION_MIGRATION", "TABLE_MIGRATION", "WORKER_METRIC_STATS"}
)
_CHECKPOINT, _SUB = "checkpoint", "checkpointSubSequenceNumber"
_PENDING = ("pendingCheckpoint", "pendingCheckpointSubSequenceNumber", "pendingCheckpointState")
_OWNER, _NEW_OWNER = "leaseOwner", "checkpointOwner"
_SWITCHES = "ownerSwitchesSinceCheckpoint"
_PARENTS, _CHILDREN = "parentShardId", "childShardIds"
_FIRST_KEY, _LAST_KEY = "startingHashKey", "endingHashKey"
_STREAM, _SHARD = "streamName", "shardId"

_WITHOUT_TIME = frozenset({"LATEST", "AT_TIMESTAMP"})
_AT_RECORD = -1

WHOLE = (1 << 63) - 1
"""The sub-sequence number of a record of unknown length: the KCL skips whatever is left of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease(ConsumerShard):
    """A lease of a shard. It has no position for LATEST and AT_TIMESTAMP: the application has their time."""

    item: Item

    @property
    def owner(self) -> str | None:
        """The worker that owns it; None if none does."""
        return _text(self.item, _OWNER)


@dataclass(frozen=True, slots=True)
class Leases:
    """The leases of one stream.

    Attributes:
        stream_name: The name of the stream in the items of an application with several streams; None if the
            application has one stream.
    """

    by_shard: Mapping[str, Lease]
    stream_name: str | None


def stream_name_of(identity: StreamIdentity) -> str:
    """Return the name of a stream in the table of an application with several streams."""
    account = identity.arn.split(":")[4]
    return f"{account}:{identity.name}:{int(identity.created.timestamp())}"


def signs_of_life(items: Sequence[Item], identity: StreamIdentity) -> dict[str, Item]:
    """Return the items that an application changes while it reads a stream, by key.

    An application that no longer reads one of its several streams may go on with the others.
    """
    several = any(_STREAM in item for item in items)
    own = stream_name_of(identity)
    return {
        _text(item, _KEY) or str(item): item for item in items if not several or _text(item, _STREAM) == own
    }


def leases_of(items: Sequence[Item], identity: StreamIdentity, *, several_streams: bool = False) -> Leases:
    """Return the leases of a stream.

    Args:
        several_streams: The application has several streams, of which this one may have no lease yet.

    Raises:
        LeasesRefused: Items are invalid, have a pending checkpoint, or are handed over to another worker; or
            the leases are those of other streams only.
    """
    own = stream_name_of(identity)
    names: set[str | None] = set()
    found: dict[str, Lease] = {}
    refused: dict[str, str] = {}
    for item in items:
        key = _text(item, _KEY)
        kind = _text(item, _TYPE) if _TYPE in item else _LEASE
        if kind in _OTHER_TYPES:
            continue
        if key is None or kind != _LEASE:
            refused[f"item {key or item}"[:200]] = (
                f"its {_TYPE} {kind!r} is not known, so it is unknown what it is for. Use a newer release; "
                "or, to import, give the positions with --from json"
                if key is not None
                else f"it has no {_KEY}, so this is no table of a KCL application. Correct the table's name"
            )
            continue
        name = _text(item, _STREAM)
        names.add(name)
        if name not in {None, own}:
            continue
        shard_id = (_text(item, _SHARD) or "") if name is not None else key
        if name is not None and key != f"{name}:{shard_id}":
            refused[f"lease {key}"] = f"its {_STREAM} is {name} and its {_SHARD} {shard_id!r}, unlike its key"
            continue
        try:
            found[shard_id] = lease_of(item)
        except InvalidInput as error:
            refused[f"lease {key}"] = error.reason
    if refused:
        raise LeasesRefused(identity.name, refused)
    if reason := _of_another_application(names, own, several_streams=several_streams):
        raise LeasesRefused(identity.name, {"lease table": reason})
    return Leases(found, own if several_streams or own in names else None)


def _of_another_application(names: set[str | None], own: str, *, several_streams: bool) -> str | None:
    """Return why the leases are not those of an application that reads a stream; None if they are.

    Args:
        names: The names of the streams of all leases; None for those that name none.
    """
    if None in names and len(names) > 1:
        return (
            "it has leases of an application with one stream and of one with several, so it is unknown which "
            "to use. Delete the old ones"
        )
    if None in names:
        return "it is that of an application with one stream" if several_streams else None
    if several_streams or own in names or not names:
        return None
    others = ", ".join(sorted(map(str, names)))
    return (
        f"it has leases of {others}, but none of {own}. Correct the stream or the table. If the application "
        "uses another number than the creation time, give the positions as JSON"
    )


def lease_of(item: Item) -> Lease:
    """Return the lease of an item.

    Raises:
        InvalidInput: The item is invalid, has a pending checkpoint, or is handed over to another worker.
    """
    if any(name in item for name in _PENDING):
        raise InvalidInput(
            f"it has a pending checkpoint ({_text(item, _PENDING[0])}), which the application has prepared "
            "but not completed. Let the application complete it, or delete the attributes pendingCheckpoint* "
            "to drop it"
        )
    if _NEW_OWNER in item:
        raise InvalidInput(
            f"{_text(item, _NEW_OWNER)} hands it over to {_text(item, _OWNER)}. Start the application again, "
            "and stop it when no lease is handed over"
        )
    if _number(item, _COUNTER) is None:
        raise InvalidInput(f"it has no {_COUNTER}, or one that is no number. Correct or delete it")
    checkpoint = _text(item, _CHECKPOINT)
    ended = checkpoint == SHARD_END
    first, last = _text(item, _FIRST_KEY), _text(item, _LAST_KEY)
    return Lease(
        source=f"lease {_text(item, _KEY)}",
        stored=_written(str(checkpoint), _number(item, _SUB) or 0),
        position=None if ended or checkpoint in _WITHOUT_TIME else _position(checkpoint, item),
        ended=ended,
        hash_range=None if first is None or last is None else (first, last),
        item=item,
    )


def _position(checkpoint: str | None, item: Item) -> Position:
    if checkpoint == PositionKind.TRIM_HORIZON:
        return Position(PositionKind.TRIM_HORIZON)
    # The KCL takes a missing sub-sequence number for 0.
    sub = _number(item, _SUB) if _SUB in item else 0
    if checkpoint is None or not checkpoint.isdigit() or sub is None or sub < _AT_RECORD:
        raise InvalidInput(
            f"its {_CHECKPOINT} {checkpoint!r} with {_SUB} {item.get(_SUB)} is none of the KCL. Correct it"
        )
    if sub == _AT_RECORD:
        return Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=checkpoint)
    return Position.after(checkpoint, sub)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint to write.

    Attributes:
        sequence_number: The sequence number, TRIM_HORIZON or SHARD_END.
    """

    sequence_number: str
    sub: int = 0

    def __str__(self) -> str:
        return _written(self.sequence_number, self.sub)


def _written(checkpoint: str, sub: int | None) -> str:
    return f"{checkpoint}:{sub}" if checkpoint.isdigit() else checkpoint


def checkpoint_at(sequence_number: str) -> Checkpoint:
    """Return the checkpoint from which the application resumes at a record."""
    return Checkpoint(sequence_number, _AT_RECORD)


def write_lease(
    table: LeaseTable,
    stream_name: str | None,
    shard_id: str,
    lease: Lease | None,
    *,
    shards: Mapping[str, Shard | ShardPosition],
    checkpoint: Checkpoint,
) -> tuple[Lease, bool]:
    """Write the lease of a shard, without an owner, on the condition that its item has not changed.

    Args:
        stream_name: See `Leases`.
        lease: The lease in the table; None if there is none.
        shards: The shards whose hash keys, parents and children are known, by shard id.

    Returns:
        The lease as it was to be written; and False if another writer has changed it first.

    Raises:
        LeaseTableFailed: The call failed, so it is unknown whether the lease was written.
    """
    values = _values(shard_id, shards, checkpoint)
    if lease is None:
        item: Item = {_KEY: {"S": shard_id}}
        if stream_name is not None:
            key = {"S": f"{stream_name}:{shard_id}"}
            item = {_KEY: key, _STREAM: {"S": stream_name}, _SHARD: {"S": shard_id}}
        item |= {_COUNTER: {"N": "0"}} | values
        return lease_of(item), table.put(item, _KEY)
    values[_COUNTER] = {"N": str((_number(lease.item, _COUNTER) or 0) + 1)}
    # An empty value means none.
    before = {name: lease.item.get(name, {}) for name in (_COUNTER, _CHECKPOINT, _SUB, _OWNER, _NEW_OWNER)}
    kept = {name: value for name, value in lease.item.items() if name != _OWNER}
    return lease_of(kept | values), table.update({_KEY: lease.item[_KEY]}, values, [_OWNER], before)


def checkpoint_of(recorded: ShardPosition) -> Checkpoint:
    """Return the checkpoint of a position. After a whole record, whose length is unknown, it has `WHOLE`."""
    position = recorded.position
    if recorded.finished:
        return Checkpoint(SHARD_END)
    if position.sequence_number is None:
        return Checkpoint(str(position.kind))
    if position.kind is PositionKind.AT_SEQUENCE_NUMBER:
        return checkpoint_at(position.sequence_number)
    sub = position.sub_sequence_number
    return Checkpoint(position.sequence_number, WHOLE if sub is None else sub)


def _values(shard_id: str, shards: Mapping[str, Shard | ShardPosition], checkpoint: Checkpoint) -> Item:
    values: dict[str, dict[str, Any]] = {
        _CHECKPOINT: {"S": checkpoint.sequence_number},
        _SUB: {"N": str(checkpoint.sub)},
        _SWITCHES: {"N": "0"},
    }
    if (shard := shards.get(shard_id)) is not None:
        values |= {_FIRST_KEY: {"S": shard.hash_range[0]}, _LAST_KEY: {"S": shard.hash_range[1]}}
        if shard.parents:  # DynamoDB accepts no empty set
            values[_PARENTS] = {"SS": list(shard.parents)}
    is_end = checkpoint.sequence_number == SHARD_END
    if children := [key for key, each in shards.items() if is_end and shard_id in each.parents]:
        values[_CHILDREN] = {"SS": children}
    return values


def _text(item: Item, name: str) -> str | None:
    value = item.get(name, {}).get("S")
    return value if isinstance(value, str) else None


def _number(item: Item, name: str) -> int | None:
    try:
        return int(item.get(name, {}).get("N", ""))
    except (TypeError, ValueError):
        return None
