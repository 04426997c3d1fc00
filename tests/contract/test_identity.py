"""Line 14 of the contract: a table belongs to one stream, and is not touched for any other one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets.errors import PositionsMissing, TableOfAnotherStream
from kinesis_assets.kinesis.position import Position
from kinesis_assets.operations.adopt import adopt
from kinesis_assets.table.commits.commit import freeze
from kinesis_assets.table.raw_table import PositionedTable

if TYPE_CHECKING:
    from support.pipeline import Pipeline


def copy_rows(pipeline: Pipeline) -> None:
    """Make the pipeline's table a copy of its rows, as CREATE TABLE AS SELECT makes it."""
    rows = DeltaTable(pipeline.table.uri).to_pyarrow_table()
    pipeline.table = PositionedTable(f"{pipeline.table.uri}-copy")
    write_deltalake(pipeline.table.uri, rows, partition_by=["arrival_date"])


@pytest.mark.parametrize(
    ("own", "other"),
    [("us-east-1", "eu-west-1"), ("000000000000", "111111111111")],
    ids=["region", "account"],
)
def test_a_table_of_a_stream_with_another_identity_is_refused_and_not_touched(
    pipeline: Pipeline, own: str, other: str
) -> None:
    pipeline.create(2)
    pipeline.put_many(10)
    listing = pipeline.client.listing()
    identity = listing.summary.identity
    other_identity = msgspec.structs.replace(identity, arn=identity.arn.replace(own, other))
    other_listing = replace(listing, summary=replace(listing.summary, identity=other_identity))
    starts = {shard.shard_id: Position.parse("TRIM_HORIZON") for shard in listing.shards}
    frozen = freeze(pipeline.table, other_listing, starts)
    before = pipeline.version

    for on_recreated in ("fail", "restart"):
        with pytest.raises(TableOfAnotherStream) as refused:
            pipeline.materialize(on_recreated=on_recreated)
        assert identity.arn in str(refused.value)
        assert other_identity.arn in str(refused.value)
    assert (pipeline.version, pipeline.stored) == (before, [])
    assert pipeline.table.snapshot().positions(other_identity) == frozen


def test_a_table_with_rows_but_without_positions_is_refused_until_it_is_adopted(pipeline: Pipeline) -> None:
    pipeline.create(2)
    pipeline.put_many(100)
    pipeline.materialize()
    copy_rows(pipeline)
    pipeline.put_many(100)

    with pytest.raises(PositionsMissing, match="kinesis-assets adopt"):
        pipeline.materialize()
    assert pipeline.version == 0

    adopt(pipeline.client, pipeline.table, by="ann", apply=True)
    pipeline.materialize()
    pipeline.assert_exactly_once()
