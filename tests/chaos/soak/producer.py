"""What comes into the stream: records at a steady rate, and a reshard now and then."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

KEYS = 50
BATCHES_A_SECOND = 5


@dataclass
class Producer:
    """Puts records, and keeps what was acknowledged.

    Attributes:
        kinesis: A boto3 client whose SDK tries nothing again: a lost answer must not put a record twice.
        stream: The stream's name.
        rate: Records a second.
        chance: Draws partition keys, and which records have none while the stream needs none.
        acknowledged: (shard id, sequence number, data) of each record, in the order of the answers.
        unsure: Data of records whose answer was lost: they may be in the stream.
        next_number: Of the next record.
        needs_keys: The stream's record distribution strategy is not AUTO.
        keyless: Records that were acknowledged without a partition key.
    """

    kinesis: Any
    stream: str
    rate: int
    chance: random.Random
    acknowledged: list[tuple[str, str, bytes]] = field(default_factory=list)
    unsure: set[bytes] = field(default_factory=set)
    next_number: int = 0
    needs_keys: bool = True
    keyless: int = 0

    def produce(self) -> None:
        """Put one batch."""
        first, self.next_number = self.next_number, self.next_number + self.rate // BATCHES_A_SECOND
        data = [b"%d " % number + bytes(100) for number in range(first, self.next_number)]
        entries = [{"Data": each} | self._key() for each in data]
        try:
            answer = self.kinesis.put_records(StreamName=self.stream, Records=entries)
        except (ClientError, BotoCoreError):
            self.unsure.update(data)
            return
        for put, entry in zip(answer["Records"], entries, strict=True):
            if "SequenceNumber" in put:
                self.acknowledged.append((put["ShardId"], put["SequenceNumber"], entry["Data"]))
                self.keyless += "PartitionKey" not in entry

    def _key(self) -> dict[str, Any]:
        if not self.needs_keys and self.chance.random() < 0.5:
            return {}
        return {"PartitionKey": f"key-{self.chance.randrange(KEYS)}"}


class OnDemandStream:
    """An on-demand stream whose shards and record distribution strategy change while it is written.

    The embedded stream does not scale by itself, and a provisioned one has no strategy: for the moment of a
    split or merge it is provisioned.

    Args:
        kinesis: A boto3 client.
        name: The stream's name; it is created.
        chance: Draws which shards are split or merged.
    """

    def __init__(self, kinesis: Any, name: str, chance: random.Random) -> None:
        self._kinesis = kinesis
        self._chance = chance
        self._changing = threading.Lock()
        self._strategy = "USER_PARTITION_KEY"
        kinesis.create_stream(StreamName=name, StreamModeDetails={"StreamMode": "ON_DEMAND"})
        summary = kinesis.describe_stream_summary(StreamName=name)
        self._arn = summary["StreamDescriptionSummary"]["StreamARN"]

    def switch_strategy(self) -> bool:
        """Switch to AUTO or back; whether records need a partition key now."""
        with self._changing:
            self._strategy = "USER_PARTITION_KEY" if self._strategy == "AUTO" else "AUTO"
            self._set_strategy()
            return self._strategy != "AUTO"

    def reshard(self) -> str:
        """Split or merge open shards; return what was done. A stale list may name shards that are closed."""
        with self._changing, self._provisioned():
            try:
                return self._reshard()
            except self._kinesis.exceptions.InvalidArgumentException as error:
                return f"resharded nothing: {error}"

    def _reshard(self) -> str:
        shards = self._kinesis.list_shards(StreamARN=self._arn)["Shards"]
        opened = [shard for shard in shards if "EndingSequenceNumber" not in shard["SequenceNumberRange"]]
        opened.sort(key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))
        if len(opened) > 4 or (len(opened) > 1 and self._chance.random() < 0.4):
            first = self._chance.randrange(len(opened) - 1)
            lower, upper = (shard["ShardId"] for shard in opened[first : first + 2])
            self._kinesis.merge_shards(StreamARN=self._arn, ShardToMerge=lower, AdjacentShardToMerge=upper)
            return f"merged {lower} and {upper}"
        keys = (shard := self._chance.choice(opened))["HashKeyRange"]
        middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"]) + 1) // 2
        self._kinesis.split_shard(
            StreamARN=self._arn, ShardToSplit=shard["ShardId"], NewStartingHashKey=str(middle)
        )
        return f"split {shard['ShardId']}"

    @contextmanager
    def _provisioned(self) -> Iterator[None]:
        self._set_mode("PROVISIONED")
        try:
            yield
        finally:
            self._set_mode("ON_DEMAND")
            self._set_strategy()

    def _set_mode(self, mode: str) -> None:
        self._kinesis.update_stream_mode(StreamARN=self._arn, StreamModeDetails={"StreamMode": mode})

    def _set_strategy(self) -> None:
        self._kinesis.update_stream_record_distribution_strategy(
            StreamARN=self._arn, RecordDistributionStrategy=self._strategy
        )


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
