"""Changes of a stream while it is read."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from kinesis_assets.emulator.errors import ResourceNotFoundException
from kinesis_assets.emulator.sequence_numbers import SequenceNumber
from kinesis_assets.errors import InvalidInput, ShardUnknown

if TYPE_CHECKING:
    from kinesis_assets.emulator.account import Account
    from kinesis_assets.emulator.shards import Shard
    from kinesis_assets.emulator.streams import Stream
    from kinesis_assets.testing.fault_chain import Downstream, Layer
    from kinesis_assets.testing.messages import Answer, Call


def trim(stream: Stream, shard_id: str | None, before: str | None) -> None:
    """Delete records of one shard or of all shards; see `Faults.trim`."""
    try:
        shards = stream.shards if shard_id is None else [stream.shard(shard_id)]
    except ResourceNotFoundException as error:
        raise ShardUnknown(
            str(shard_id), f"the shard does not exist in stream {stream.name}; use a shard id from ListShards"
        ) from error
    if before is None:
        for shard in shards:
            shard.trim_to(shard.next)
        return
    if shard_id is None:
        raise InvalidInput(f"before={before} needs a shard_id: a sequence number belongs to one shard")
    (shard,) = shards
    shard.trim_to(_position(shard, before))


def recreate(account: Account, name: str) -> None:
    """Delete a stream and create it again; see `Faults.recreate`."""
    stream = account.stream(name)
    account.delete_stream(stream)
    account.create_stream(name, len(stream.open_shards))


def stale_list(reshards: int) -> Layer:
    """List the shards as of before the last reshards; see `Faults.stale_list`."""

    async def listed_before(call: Call, downstream: Downstream) -> Answer:
        answer = await downstream(call)
        if answer.status != HTTPStatus.OK or call.stream is None:
            return answer
        stream = downstream.account.stream(call.stream)
        return answer.but(Shards=_before_reshards(stream, answer.members["Shards"], reshards))

    return listed_before


def _before_reshards(stream: Stream, listed: list[dict[str, Any]], reshards: int) -> list[dict[str, Any]]:
    """Return a page of listed shards as of before the last reshards."""
    shards = {shard.shard_id: shard for shard in stream.shards}
    closing_times = sorted({shard.closed_at for shard in shards.values() if shard.closed_at is not None})
    if not closing_times:
        return listed
    until = closing_times[max(0, len(closing_times) - reshards)]
    page = [shard for shard in listed if shards[shard["ShardId"]].opened_at < until]
    return [
        _reopened(shard) if (shards[shard["ShardId"]].closed_at or 0) >= until else shard for shard in page
    ]


def _reopened(listed: dict[str, Any]) -> dict[str, Any]:
    numbers = {name: number for name, number in listed["SequenceNumberRange"].items() if "Ending" not in name}
    return listed | {"SequenceNumberRange": numbers}


def _position(shard: Shard, sequence_number: str) -> int:
    number = SequenceNumber.parse(sequence_number) if sequence_number.isdecimal() else None
    if number is None or (number.era, number.shard_number) != (shard.era, shard.number):
        raise InvalidInput(f"before={sequence_number!r} is not a sequence number of {shard.shard_id}")
    return number.ordinal
