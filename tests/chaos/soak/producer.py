"""The stream of the soak test: records at a steady rate, and reshards."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

KEYS = 50
BATCHES_PER_SECOND = 5


@dataclass
class Producer:
    """Puts records, and keeps those that were acknowledged.

    Attributes:
        kinesis: A boto3 client without retries: after a lost response, a retry would put a record twice.
        rate: Records per second.
        random: Draws partition keys, and which records have none while the stream does not need them.
        acknowledged: (shard id, sequence number, data) of each record, in the order of the responses.
        unsure: Data of records whose response was lost, and which may be in the stream.
        next_number: The number of the next record.
        needs_keys: Whether records need a partition key (the record distribution strategy is not AUTO).
        keyless: Number of records that were acknowledged without a partition key.
    """

    kinesis: Any
    stream: str
    rate: int
    random: Random
    acknowledged: list[tuple[str, str, bytes]] = field(default_factory=list)
    unsure: set[bytes] = field(default_factory=set)
    next_number: int = 0
    needs_keys: bool = True
    keyless: int = 0

    def produce(self) -> None:
        """Put a batch of records."""
        first, self.next_number = self.next_number, self.next_number + self.rate // BATCHES_PER_SECOND
        payloads = [b"%d " % number + bytes(100) for number in range(first, self.next_number)]
        entries = [{"Data": payload} | self._key() for payload in payloads]
        try:
            response = self.kinesis.put_records(StreamName=self.stream, Records=entries)
        except (ClientError, BotoCoreError):
            self.unsure.update(payloads)
            return
        for put, entry in zip(response["Records"], entries, strict=True):
            if "SequenceNumber" in put:
                self.acknowledged.append((put["ShardId"], put["SequenceNumber"], entry["Data"]))
                self.keyless += "PartitionKey" not in entry

    def _key(self) -> dict[str, Any]:
        if not self.needs_keys and self.random.random() < 0.5:
            return {}
        return {"PartitionKey": f"key-{self.random.randrange(KEYS)}"}


class OnDemandStream:
    """An on-demand stream whose shards and record distribution strategy change while records are put.

    The embedded stream does not scale by itself, and a provisioned stream has no strategy. The stream is
    therefore provisioned only during a split or a merge.

    Args:
        kinesis: A boto3 client.
        name: The name of the stream, which is created.
        random: Draws which shards are split or merged.
    """

    def __init__(self, kinesis: Any, name: str, random: Random) -> None:
        self._kinesis = kinesis
        self._random = random
        self._lock = threading.Lock()
        self._strategy = "USER_PARTITION_KEY"
        kinesis.create_stream(StreamName=name, StreamModeDetails={"StreamMode": "ON_DEMAND"})
        summary = kinesis.describe_stream_summary(StreamName=name)
        self._arn = summary["StreamDescriptionSummary"]["StreamARN"]

    def switch_strategy(self) -> bool:
        """Switch to AUTO or back, and return whether records now need a partition key."""
        with self._lock:
            self._strategy = "USER_PARTITION_KEY" if self._strategy == "AUTO" else "AUTO"
            self._set_strategy()
            return self._strategy != "AUTO"

    def reshard(self) -> str:
        """Split or merge open shards, and return a description. A stale list may contain closed shards."""
        with self._lock, self._provisioned():
            try:
                return self._reshard()
            except self._kinesis.exceptions.InvalidArgumentException as error:
                return f"no reshard: {error}"

    def _reshard(self) -> str:
        shards = self._kinesis.list_shards(StreamARN=self._arn)["Shards"]
        open_shards = [
            shard for shard in shards if "EndingSequenceNumber" not in shard["SequenceNumberRange"]
        ]
        open_shards.sort(key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))
        if len(open_shards) > 4 or (len(open_shards) > 1 and self._random.random() < 0.4):
            first = self._random.randrange(len(open_shards) - 1)
            lower, upper = (shard["ShardId"] for shard in open_shards[first : first + 2])
            self._kinesis.merge_shards(StreamARN=self._arn, ShardToMerge=lower, AdjacentShardToMerge=upper)
            return f"merged {lower} and {upper}"
        keys = (shard := self._random.choice(open_shards))["HashKeyRange"]
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
    seconds: float, action: Callable[[], object], *, stopped: threading.Event, failures: list[str]
) -> threading.Thread:
    """Repeat an action in its own thread until `stopped` is set, and append its errors to `failures`."""

    def work() -> None:
        while not stopped.wait(seconds):
            try:
                action()
            except Exception as error:  # noqa: BLE001  # it makes the soak test fail
                failures.append(repr(error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
