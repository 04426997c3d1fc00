"""What comes into the stream: records at a steady rate, and a reshard now and then."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

KEYS = 50
BATCHES_A_SECOND = 5


@dataclass
class Producer:
    """Puts records, and keeps what was acknowledged.

    Attributes:
        kinesis: A boto3 client whose SDK tries nothing again: a lost answer must not put a record twice.
        stream: The stream's name.
        rate: Records a second.
        chance: Draws partition keys.
        acknowledged: (shard id, sequence number, data) of each record, in the order of the answers.
        unsure: Data of records whose answer was lost: they may be in the stream.
        next_number: Of the next record.
    """

    kinesis: Any
    stream: str
    rate: int
    chance: random.Random
    acknowledged: list[tuple[str, str, bytes]] = field(default_factory=list)
    unsure: set[bytes] = field(default_factory=set)
    next_number: int = 0

    def produce(self) -> None:
        """Put one batch."""
        first, self.next_number = self.next_number, self.next_number + self.rate // BATCHES_A_SECOND
        data = [b"%d " % number + bytes(100) for number in range(first, self.next_number)]
        entries = [{"Data": each, "PartitionKey": f"key-{self.chance.randrange(KEYS)}"} for each in data]
        try:
            answer = self.kinesis.put_records(StreamName=self.stream, Records=entries)
        except (ClientError, BotoCoreError):
            self.unsure.update(data)
            return
        self.acknowledged += [
            (put["ShardId"], put["SequenceNumber"], each)
            for put, each in zip(answer["Records"], data, strict=True)
            if "SequenceNumber" in put
        ]


def reshard(kinesis: Any, stream: str, chance: random.Random) -> str:
    """Split or merge open shards; what was done."""
    shards = kinesis.list_shards(StreamName=stream)["Shards"]
    opened = [shard for shard in shards if "EndingSequenceNumber" not in shard["SequenceNumberRange"]]
    opened.sort(key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))
    if len(opened) > 4 or (len(opened) > 1 and chance.random() < 0.4):
        first = chance.randrange(len(opened) - 1)
        lower, upper = (shard["ShardId"] for shard in opened[first : first + 2])
        kinesis.merge_shards(StreamName=stream, ShardToMerge=lower, AdjacentShardToMerge=upper)
        return f"merged {lower} and {upper}"
    keys = (shard := chance.choice(opened))["HashKeyRange"]
    middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"]) + 1) // 2
    kinesis.split_shard(StreamName=stream, ShardToSplit=shard["ShardId"], NewStartingHashKey=str(middle))
    return f"split {shard['ShardId']}"


def every(
    seconds: float, do: Callable[[], object], *, stopped: threading.Event, failures: list[str]
) -> threading.Thread:
    """Do something again and again in a thread of its own, until stopped; what it raises is noted."""

    def work() -> None:
        while not stopped.wait(seconds):
            try:
                do()
            except Exception as error:  # noqa: BLE001  # the soak fails with it
                failures.append(repr(error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
