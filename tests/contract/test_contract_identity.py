"""The contract's lines 6 and 14: whose table it is, and rows that its positions have not passed.

With real Spark, a real Delta table and Dagster's own runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets.adopt.run import adopt
from kinesis_assets.dagster.in_process import run_replay
from kinesis_assets.errors import PositionsMissing, TableOfAnotherStream, TableRewritten
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.commit import freeze
from kinesis_assets.table.table import PositionedTable

if TYPE_CHECKING:
    from kinesis_assets.adopt.run import AdoptResult
    from support.pipeline import Pipeline


def version_of(pipeline: Pipeline) -> int:
    return DeltaTable(pipeline.table.uri).version()


def adopted(pipeline: Pipeline) -> AdoptResult:
    client = StreamClient(pipeline.stream, pipeline.settings)
    return adopt(client, pipeline.table, by="ann", apply=True)


def copy(pipeline: Pipeline) -> None:
    """Go on with a copy of the table's rows, as CREATE TABLE AS SELECT makes it."""
    rows = DeltaTable(pipeline.table.uri).to_pyarrow_table()
    pipeline.table = PositionedTable(f"{pipeline.table.uri}-copy")
    write_deltalake(pipeline.table.uri, rows, partition_by=["arrival_date"])


# 6. No silent loss.


def test_a_restored_table_is_told_until_what_is_missing_is_filled_in_and_accepted(
    pipeline: Pipeline,
) -> None:
    pipeline.create(2)
    pipeline.put_many(100)
    pipeline.materialize()
    before = version_of(pipeline)
    pipeline.put_many(100)
    pipeline.materialize()
    DeltaTable(pipeline.table.uri).restore(before)
    pipeline.put_many(100)
    restored = version_of(pipeline)

    with pytest.raises(TableRewritten, match=f"version {restored} "):
        pipeline.materialize()
    assert version_of(pipeline) == restored

    run_replay(pipeline.project(), pipeline.instance, start="TRIM_HORIZON")
    with pytest.raises(TableRewritten):
        pipeline.materialize()
    assert [rewrite.version for rewrite in adopted(pipeline).accepted] == [restored]
    pipeline.materialize()
    pipeline.assert_exactly_once()


# 14. Identity.


@pytest.mark.parametrize(
    ("own", "others"),
    [("us-east-1", "eu-west-1"), ("000000000000", "111111111111")],
    ids=["region", "account"],
)
def test_a_table_of_the_same_stream_elsewhere_is_refused_before_anything_is_touched(
    pipeline: Pipeline, own: str, others: str
) -> None:
    pipeline.create(2)
    pipeline.put_many(10)
    listing = StreamClient(pipeline.stream, pipeline.settings).listing()
    ours = listing.summary.identity
    other = msgspec.structs.replace(ours, arn=ours.arn.replace(own, others))
    swapped = replace(listing, summary=replace(listing.summary, identity=other))
    starts = {shard.shard_id: Position.parse("TRIM_HORIZON") for shard in listing.shards}
    theirs = freeze(pipeline.table, swapped, starts)
    before = version_of(pipeline)

    for on_recreated in ("fail", "restart"):
        with pytest.raises(TableOfAnotherStream) as refused:
            pipeline.materialize(on_recreated=on_recreated)
        assert ours.arn in str(refused.value)
        assert other.arn in str(refused.value)
    assert (version_of(pipeline), pipeline.stored) == (before, [])
    assert pipeline.table.snapshot().positions(other) == theirs


def test_rows_without_positions_are_refused_before_anything_is_touched_until_they_are_adopted(
    pipeline: Pipeline,
) -> None:
    pipeline.create(2)
    pipeline.put_many(100)
    pipeline.materialize()
    copy(pipeline)
    pipeline.put_many(100)

    with pytest.raises(PositionsMissing, match="kinesis-assets adopt"):
        pipeline.materialize()
    assert version_of(pipeline) == 0

    adopted(pipeline)
    pipeline.materialize()
    pipeline.assert_exactly_once()
