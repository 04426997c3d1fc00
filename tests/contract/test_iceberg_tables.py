"""Runs of Dagster that land records in an Iceberg table with Spark, and operations on it."""

from __future__ import annotations

import pytest

from kinesis_assets.dagster.stream_names import StreamNames
from support.formats import raw_table_in, settings_of, table_of


@pytest.fixture(params=["sql", "glue"])
def iceberg(request, pipeline, tmp_path):
    """The settings of the stream's Iceberg table in a catalog, which the pipeline uses from now on."""
    name = StreamNames.of(pipeline.stream).raw_key.path[-1]
    named = "".join(each if each.isalnum() else "_" for each in name.lower())
    uri = str(tmp_path / "orders")
    if request.param == "sql":
        pipeline.table = table_of("iceberg", uri, name=named)
    else:
        pipeline.table = raw_table_in(request.getfixturevalue("glue_catalog"), uri, name=named)
    return settings_of(pipeline.table)


def test_runs_land_each_record_once_and_a_replay_adds_what_was_lost(pipeline, iceberg):
    pipeline.create(2)
    for item in range(20):
        pipeline.put(item)
    events = pipeline.materialize(**iceberg)
    assert sum(event["rows"] for event in events.values()) == 20
    pipeline.assert_exactly_once()
    pipeline.put(20)
    pipeline.materialize(**iceberg)
    pipeline.assert_exactly_once()
    pipeline.lose(3, 4)
    pipeline.replay()
    pipeline.assert_exactly_once()
    pipeline.assert_rows_equal_positions()
