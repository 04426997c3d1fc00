"""A stream in memory with any number of shards, for plans and commits without HTTP, Spark and Dagster."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from kinesis_assets.emulator.shards import SequenceNumber
from kinesis_assets.ingest.land import packed
from kinesis_assets.ingest.manifest import Landing, ShardLanding
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import RangeEnd
from kinesis_assets.kinesis.records.records import RECORD_SCHEMA
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.table.data_file_writer import DataFileWriter
from kinesis_assets.table.positions.range_stats import RangeStats, ReadingFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.ingest.plan import RunPlan
    from kinesis_assets.ingest.task import LandingJob
    from kinesis_assets.kinesis.reading.range import Allowance, ShardRange
    from kinesis_assets.table.raw_table import PositionedTable

STREAM = "simulated"
PAGE = 1000
"""Number of shards in a page of ListShards."""

_HASH_KEYS = 1 << 128
_ERA = 0x5BF4E5C2


class SimulatedStream(StreamClient):
    """A client whose stream is in memory. All shards are open, and each read finds records in each of them.

    Args:
        shards: Number of shards.
        tasks: Number of tasks of a landing.

    Attributes:
        calls: Number of calls by operation. Reading a shard counts as one GetShardIterator and one
            GetRecords, which tests/unit/ingest/test_call_counts.py confirms.
        tasks: Number of tasks that have read shards.
    """

    def __init__(self, shards: int, tasks: int = 1) -> None:
        super().__init__(STREAM, ClientSettings("us-east-1", "http://127.0.0.1:1"))
        self.calls: Counter[str] = Counter()
        self.tasks = 0
        self._tasks_at_once = tasks
        self._random = random.Random(19)  # the same in every run
        self._created = datetime.now(UTC).replace(microsecond=0)
        self._now = self._created
        self.shard_ids = [f"shardId-{number:012}" for number in range(shards)]
        bounds = [_HASH_KEYS * number // shards for number in range(shards + 1)]
        self._ordinals = [self._random.randrange(1 << 40) for _ in range(shards)]
        self._shard_list = [
            {
                "ShardId": shard_id,
                "HashKeyRange": {
                    "StartingHashKey": str(bounds[number]),
                    "EndingHashKey": str(bounds[number + 1] - 1),
                },
                "SequenceNumberRange": {"StartingSequenceNumber": str(number + 1)},
            }
            for number, shard_id in enumerate(self.shard_ids)
        ]

    def plan(self, table: PositionedTable) -> RunPlan:
        """Plan the next range of every shard."""
        return plan_run(self, table, asked=self.shard_ids, policy=ReadPolicy())

    def execute(self, table: PositionedTable, plan: RunPlan) -> RunResult:
        """Land a plan and commit it, as an iteration of a continuous run does."""
        return execute_run(self.land, self, table, plan, is_iteration=True)

    def run(self, table: PositionedTable, seconds: float = 1.0) -> RunResult:
        """Let time pass, and then read every shard once."""
        self.pass_time(seconds)
        return self.execute(table, self.plan(table))

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self._now += timedelta(seconds=seconds)

    def land(self, job: LandingJob, ranges: Sequence[ShardRange], allowance: Allowance) -> Landing:
        """Read the ranges, as the tasks of a landing do."""
        del allowance
        groups = packed(ranges, min(len(ranges), self._tasks_at_once))
        return sum((self._land_group(job, group) for group in groups), Landing())

    def _land_group(self, job: LandingJob, ranges: Sequence[ShardRange]) -> Landing:
        self.tasks += 1
        self.calls.update({"GetShardIterator": len(ranges), "GetRecords": len(ranges)})
        landed = [self._read(range_) for range_ in ranges]
        with DataFileWriter(job.folder.open(), job.batch_id, job.layout) as writer:
            # One row for each shard, since only the number of files matters.
            writer.write(ranges[0].shard_id, self._rows(landed))
            (file,) = writer.close()
        rows = {shard.shard_id: 1 for shard in landed}
        return Landing((msgspec.structs.replace(file, rows_by_shard=rows),), tuple(landed))

    def _read(self, range_: ShardRange) -> ShardLanding:
        number = int(range_.shard_id.removeprefix("shardId-"))
        rows = self._random.randint(2, 1000)
        first, last = self._next(number, 1), self._next(number, rows)
        stats = RangeStats(
            start=range_.start,
            through=Position.after(last),
            first_sequence_number=first,
            last_sequence_number=last,
            rows=rows,
            bytes=self._random.randint(100 * rows, 1000 * rows),
            checksum=self._random.randrange(rows << 32),
        )
        arrival = self._now - timedelta(milliseconds=self._random.randrange(1000))
        return ShardLanding(
            shard_id=range_.shard_id,
            stats=stats,
            end=RangeEnd.TIP,
            error=None,
            facts=ReadingFacts(
                bad_records=0,
                outside_hash_range=0,
                first_arrival=arrival,
                last_arrival=arrival,
                millis_behind_latest=0,
                gaps=(),
                throttles=0,
            ),
            tip_time=self._now,
        )

    def _next(self, number: int, later: int) -> str:
        self._ordinals[number] += later
        second = int(self._now.timestamp())
        return str(SequenceNumber(_ERA, number, self._ordinals[number], second))

    def _rows(self, landed: Sequence[ShardLanding]) -> pa.RecordBatch:
        count = len(landed)
        columns = [
            [STREAM] * count,
            [shard.shard_id for shard in landed],
            [shard.stats.last_sequence_number for shard in landed],
            [0] * count,
            ["k"] * count,
            [b"data"] * count,
            [self._now] * count,
            [None] * count,
        ]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, RECORD_SCHEMA.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)

    def _call(self, operation: str, required: str, **arguments: Any) -> dict[str, Any]:
        """Answer a call from memory."""
        del required
        self.calls[operation] += 1
        content = self._description() if operation == "DescribeStreamSummary" else self._page(**arguments)
        headers = {"date": format_datetime(self._now, usegmt=True)}
        return {**content, "ResponseMetadata": {"HTTPHeaders": headers}}

    def _description(self) -> dict[str, Any]:
        return {
            "StreamDescriptionSummary": {
                "StreamARN": f"arn:aws:kinesis:us-east-1:000000000000:stream/{STREAM}",
                "StreamCreationTimestamp": self._created,
                "RetentionPeriodHours": 24,
            }
        }

    def _page(self, NextToken: str = "0", **_: str) -> dict[str, Any]:  # noqa: N803  # the API's name
        first = int(NextToken)
        following = first + PAGE
        token = {"NextToken": str(following)} if following < len(self._shard_list) else {}
        return {"Shards": self._shard_list[first:following], **token}
