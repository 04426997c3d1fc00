"""Pages of an emulator that does not limit the size of a page."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from integration.emulators.emulators import client
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.reading.calls import PageLimit
from kinesis_assets.kinesis.reading.range import Bounds
from kinesis_assets.kinesis.settings import LARGEST_BODY, ClientSettings, ReadTiming
from support.single_task import land_as_in_spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration.emulators.emulators import Service
    from kinesis_assets.table.raw_table import PositionedTable

SHARD = "shardId-000000000000"
RECORDS, RECORD_BYTES = 10_000, 5_300
PAGE_BYTES = RECORDS * RECORD_BYTES * 4 // 3
"""Minimum size of a page in base64: 67 MiB."""

UNPACED = ReadTiming(seconds_between_calls=0.0, bytes_per_second=1e12)
"""No call waits for its turn."""

FITTING = 1_250
"""Records in the first page that fits, after halving the number of records several times."""


@pytest.fixture
def halved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of records that were halved, in order."""
    numbers: list[int] = []
    halve: Callable[[PageLimit, int], bool] = PageLimit.halve

    def recorded(limit: PageLimit, records: int) -> bool:
        numbers.append(records)
        return halve(limit, records)

    monkeypatch.setattr(PageLimit, "halve", recorded)
    return numbers


@pytest.mark.thorough
@pytest.mark.parametrize("emulator", ["kinesalite"], indirect=True)
def test_pages_of_72_mb_are_halved_until_they_fit(
    emulator: Service, stream: str, table: PositionedTable, halved: list[int]
) -> None:
    assert PAGE_BYTES > 4 * LARGEST_BODY
    with closing(client(emulator.endpoint)) as kinesis:
        kinesis.create_stream(StreamName=stream, ShardCount=1)
        kinesis.get_waiter("stream_exists").wait(
            StreamName=stream, WaiterConfig={"Delay": 1, "MaxAttempts": 30}
        )
        for first in range(0, RECORDS, 500):
            entries = [
                {"Data": b"%06d" % item + bytes(RECORD_BYTES - 6), "PartitionKey": "k"}
                for item in range(first, first + 500)
            ]
            kinesis.put_records(StreamName=stream, Records=entries)
        reading = StreamClient(stream, ClientSettings("us-east-1", emulator.endpoint, timing=UNPACED))
        # kinesalite reports 0 MillisBehindLatest on each page, so a run reads one page. Later runs read a
        # page that fits.
        policies = [ReadPolicy()] + [ReadPolicy(bounds=Bounds(max_records=FITTING))] * (
            RECORDS // FITTING - 1
        )
        for policy in policies:
            plan = plan_run(reading, table, asked=[SHARD], policy=policy)
            outcome = execute_run(land_as_in_spark, reading, table, plan).outcomes[SHARD]
            assert (outcome.error, outcome.rows) == (None, FITTING)
        kinesis.delete_stream(StreamName=stream)
    assert halved == [10_000, 5_000, 2_500]
    rows = DeltaTable(table.folder.uri).to_pyarrow_table(columns=["data"])["data"].to_pylist()
    assert sorted(int(data[:6]) for data in rows) == list(range(RECORDS))
