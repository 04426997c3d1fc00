"""Execute a history: a stream, its table, runs between them, and a check after each step."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable, Schema

from chaos.property.expected_rows import ExpectedRows, HashRange, hash_of, payload
from chaos.property.histories import Distribute, Maintain, Merge, Put, Recover, Restore, Run, Split, Wait
from chaos.property.invariants import InvariantChecker
from chaos.property.runs import Runner
from kinesis_assets.errors import ClocksDisagree, TableMissing, TableRewritten
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.clock import MachineClock
from kinesis_assets.kinesis.reading.subscription import Subscriptions
from kinesis_assets.table.data_file import PARTITION_COLUMNS, TABLE_SCHEMA
from kinesis_assets.table.maintenance.run import maintain
from support.formats import format_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.property.histories import Aggregate, History, Plain, Step
    from chaos.property.interceptor import Interceptor
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.testing import Clock, Faults

_YEAR_HOURS = 8760
"""The longest retention: nothing expires, however long a history waits."""

_NOON, _DAY = 43_200, 86_400

_RESUBSCRIBE = 6
"""Seconds after which a consumer may subscribe to a shard again."""

_EVENT_FAULTS = (
    None,
    None,
    "cut_event",
    "damage_event",
    "end_without_children",
    None,
    "fail_events",
    "repeat_event",
    "reset_events",
    "stale_continuation",
)
"""What happens to the next subscription that is opened from the start of a run on."""

_MOST_OPEN = 6
"""No more shards are opened than that: it takes time and shows nothing new."""


@dataclass(repr=False)
class SharedResources:
    """The resources that all histories share.

    Attributes:
        clock: The clock of the service.
        faults: The faults of the service.
        kinesis: A plain boto3 client.
        client: The client of the runs. All histories use one stream name: clients are slow to create.
        interceptor: Interrupts calls of the package.
    """

    clock: Clock
    faults: Faults
    kinesis: Any
    client: StreamClient
    interceptor: Interceptor


class Scenario:
    """The stream and the table of one history."""

    def __init__(
        self,
        shared: SharedResources,
        table: PositionedTable,
        history: History,
        *,
        by_subscriptions: bool = False,
    ) -> None:
        self._shared = shared
        self._table = table
        self._stream = {"StreamName": shared.client.stream}
        shared.kinesis.create_stream(**self._stream, ShardCount=history.shards)
        shared.kinesis.increase_stream_retention_period(**self._stream, RetentionPeriodHours=_YEAR_HOURS)
        shared.clock.advance(_DAY + _NOON - shared.clock.seconds % _DAY)
        self._on_demand, self._auto = history.on_demand, False
        if history.on_demand:
            self._set_mode("ON_DEMAND")
        if history.old_table and format_of(table) == "delta":
            _create_old(table)
        self._shards: dict[str, dict[str, Any]] = {}
        self._expected = ExpectedRows()
        self._checker = InvariantChecker(table, shared.client.describe().identity, self._expected)
        self._runner = Runner(
            shared.client,
            table,
            history.start,
            shared.faults,
            shared.interceptor,
            self._checker,
            self.take,
            _subscriptions(shared) if by_subscriptions else None,
        )
        self._event_faults = cycle(_EVENT_FAULTS if by_subscriptions else [None])

    def take(self, step: Step) -> None:
        """Execute a step of the history."""
        match step:
            case Put():
                self._put(step)
            case Split():
                self._split(step)
            case Merge():
                self._merge(step)
            case Wait():
                self._shared.clock.advance(step.seconds)
            case Distribute():
                self._auto = step.auto and self._on_demand
                self._distribute()
            case Maintain():
                self._maintain(step)
            case Restore() | Recover() | Run():
                self._act(step)

    def _act(self, step: Restore | Recover | Run) -> None:
        """Execute a step that concerns the table."""
        match step:
            case Restore():
                self._checker.restore(step.back)
            case Recover():
                self._runner.recover(step)
            case Run():
                asked = list(self._listed())
                if step.asked is not None:
                    asked = [asked[which] for which in sorted({which % len(asked) for which in step.asked})]
                if fault := next(self._event_faults):
                    getattr(self._shared.faults, fault)(times=1)
                    self._shared.clock.advance(_RESUBSCRIBE)
                self._runner.run(step, asked)

    def end(self) -> None:
        """Read the rest in one run without bounds, and assert that the table equals what was acknowledged."""
        self.take(Recover())
        self._end_subscriptions()  # their last events may be on the way
        shards = self._listed()
        result = self._runner.run(Run(), list(shards))
        assert result is not None
        assert not result.errors
        states = {shard_id: outcome.state for shard_id, outcome in result.outcomes.items()}
        assert states == {
            shard_id: ShardState.FINISHED if _closed(shard) else ShardState.COMMITTED
            for shard_id, shard in shards.items()
        }
        rows = self._checker.rows()
        wanted = self._expected.by_key(self._checker.since)
        assert rows == Counter(row for of_key in wanted.values() for row in of_key)
        generations = _generations(shards)
        wanted.pop(None, None)  # these have no order
        for of_key in wanted.values():
            # These are the rows of the table, so that a reader can sort by this order.
            assert of_key == sorted(of_key, key=lambda row: (generations[row.shard_id], *row.place))

    def leave(self) -> None:
        """Delete the stream before the next history."""
        self._end_subscriptions()
        self._shared.kinesis.delete_stream(**self._stream, EnforceConsumerDeletion=True)

    def _end_subscriptions(self) -> None:
        if self._runner.subscriptions is not None:
            self._runner.subscriptions.close()
            self._runner.subscriptions = None

    def _listed(self) -> dict[str, dict[str, Any]]:
        """Return the shards by id, parents before children."""
        if not self._shards:
            listed = self._shared.kinesis.list_shards(**self._stream)["Shards"]
            self._shards = {shard["ShardId"]: shard for shard in listed}
        return self._shards

    def _open(self) -> list[tuple[HashRange, str]]:
        """Return the open shards in the order of their hash keys."""
        shards = self._listed().values()
        return sorted((_hash_range(shard), shard["ShardId"]) for shard in shards if not _closed(shard))

    def _put(self, put: Put) -> None:
        shards = self._open()
        records = put.records if self._auto else [_with_key(record) for record in put.records]
        ranges = [
            next(keys for keys, _ in shards if self._auto or hash_of(str(record.key)) in keys)
            for record in records
        ]
        entries = [
            {"Data": payload(record, keys)} | ({} if record.key is None else {"PartitionKey": record.key})
            for record, keys in zip(records, ranges, strict=True)
        ]
        if put.failing is not None:
            self._shared.faults.partial_puts(every=put.failing)
        response = self._shared.kinesis.put_records(**self._stream, Records=entries)
        self._shared.faults.clear()
        for record, keys, entry in zip(records, ranges, response["Records"], strict=True):
            if "SequenceNumber" in entry:
                shard_id, number = entry["ShardId"], int(entry["SequenceNumber"])
                placed_by = None if self._auto else record.key
                judged_by = None if self._on_demand else keys
                self._expected.add(record, shard_id, number, self._shared.clock.seconds, judged_by, placed_by)

    def _split(self, split: Split) -> None:
        shards = self._open()
        (first, last), shard_id = shards[split.shard % len(shards)]
        if len(shards) < _MOST_OPEN:
            at = first + (last - first) * split.percent // 100
            with self._provisioned():
                self._shared.kinesis.split_shard(
                    **self._stream, ShardToSplit=shard_id, NewStartingHashKey=str(at)
                )
            self._shards = {}

    def _maintain(self, step: Maintain) -> None:
        """Run a maintenance that is refused, so that rows and positions do not change."""
        stream = self._shared.client.describe()
        machine = stream.service_time + timedelta(hours=step.hours)
        refused = TableRewritten if self._checker.is_rewritten else ClocksDisagree
        with suppress(TableMissing), pytest.raises(refused):
            list(maintain(self._table, stream, retention_days=1, machine=lambda: machine))

    def _merge(self, merge: Merge) -> None:
        shards = [shard_id for _, shard_id in self._open()]
        if len(shards) > 1:
            which = merge.shard % (len(shards) - 1)
            with self._provisioned():
                self._shared.kinesis.merge_shards(
                    **self._stream, ShardToMerge=shards[which], AdjacentShardToMerge=shards[which + 1]
                )
            self._shards = {}

    @contextmanager
    def _provisioned(self) -> Iterator[None]:
        """Switch to provisioned mode for a moment, in which a test can reshard."""
        if not self._on_demand:
            yield
            return
        self._set_mode("PROVISIONED")
        yield
        self._set_mode("ON_DEMAND")
        self._distribute()

    def _set_mode(self, mode: str) -> None:
        self._shared.kinesis.update_stream_mode(StreamARN=self._arn, StreamModeDetails={"StreamMode": mode})

    def _distribute(self) -> None:
        if self._on_demand:
            strategy = "AUTO" if self._auto else "USER_PARTITION_KEY"
            self._shared.kinesis.update_stream_record_distribution_strategy(
                StreamARN=self._arn, RecordDistributionStrategy=strategy
            )

    @property
    def _arn(self) -> str:
        summary = self._shared.kinesis.describe_stream_summary(**self._stream)
        return str(summary["StreamDescriptionSummary"]["StreamARN"])


def _with_key(record: Plain | Aggregate) -> Plain | Aggregate:
    return replace(record, key="a") if record.key is None else record


def _create_old(table: PositionedTable) -> None:
    """Create a table whose column partition_key is required."""
    place = TABLE_SCHEMA.get_field_index("partition_key")
    schema = TABLE_SCHEMA.set(place, TABLE_SCHEMA.field(place).with_nullable(nullable=False))
    DeltaTable.create(table.folder.uri, Schema.from_arrow(schema), partition_by=PARTITION_COLUMNS)


def _closed(shard: dict[str, Any]) -> bool:
    return "EndingSequenceNumber" in shard["SequenceNumberRange"]


def _hash_range(shard: dict[str, Any]) -> HashRange:
    return HashRange(*(int(shard["HashKeyRange"][f"{end}HashKey"]) for end in ("Starting", "Ending")))


def _generations(shards: dict[str, dict[str, Any]]) -> dict[str, int]:
    """Return the number of reshards before each shard, which grows along a lineage."""
    found: dict[str, int] = {}
    for shard_id, shard in shards.items():
        parents = [shard[name] for name in ("ParentShardId", "AdjacentParentShardId") if name in shard]
        found[shard_id] = 1 + max((found[parent] for parent in parents), default=0)
    return found


def _subscriptions(shared: SharedResources) -> Subscriptions:
    """Register a consumer, and return its subscriptions, for which time is that of the service."""

    class ServiceTime(MachineClock):
        def monotonic(self) -> float:
            return shared.clock.seconds

    settings = shared.client.settings
    summary = shared.client.describe()
    consumer = shared.client.register_consumer("lake", summary.identity.arn)
    # Subscriptions wait as briefly for a response that does not arrive. The other calls have to succeed.
    timing = replace(settings.timing, clock=ServiceTime(), read_timeout=0.5)
    client = StreamClient(shared.client.stream, replace(settings, timing=timing), attempts=1)
    return Subscriptions(client, consumer.arn, summary.service_time, lambda _: None)
