"""docs/compare.md agrees with the code, and its commands run."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from benchmarks.harness.waiting import wait_for_next_second
from kinesis_assets.operations.compare.comparison import Counts
from kinesis_assets.operations.compare.stream_range import STREAM_COLUMNS

PAGE = (Path(__file__).parents[2] / "docs" / "compare.md").read_text()
COMMANDS = re.findall(r"^kinesis-assets (compare .*)$", PAGE, re.MULTILINE)


@pytest.fixture
def tables(kinesis, settings, tmp_path, monkeypatch, spark):
    """The page's stream with three records, and the two tables that have them."""
    del spark
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", settings.endpoint_url)
    kinesis.create_stream(StreamName="clicks", ShardCount=1)
    rows = []
    for number in range(3):
        payload = json.dumps({"id": number})
        put = kinesis.put_record(StreamName="clicks", Data=payload.encode(), PartitionKey="k")
        place = {"shardId": put["ShardId"], "sequenceNumber": put["SequenceNumber"]}
        rows.append(place | {"id": number, "payload": payload, "day": "2026-01-31"})
    Path("firehose").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), "firehose/part.parquet")
    write_deltalake("events", pa.Table.from_pylist(rows))
    wait_for_next_second()
    yield
    kinesis.delete_stream(StreamName="clicks")


@pytest.mark.usefixtures("tables")
def test_the_commands_compare_the_tables_of_the_page(cli):
    results = [cli(*shlex.split(command), "--json") for command in COMMANDS]
    # The last range ends before the stream was created, which proves nothing.
    assert [done.exit_code for done in results] == [0, 0, 1], [done.err for done in results]
    counts = [(line["records"], line["equal"], line["outside"]) for done in results for line in done.lines]
    assert counts == [(3, 3, 0), (3, 3, 0), (0, 0, 3)]


def test_the_documented_columns_are_those_of_the_result_and_of_a_record():
    assert re.findall(r"^\| `([a-z]+)` \|", PAGE, re.MULTILINE) == [field.name for field in fields(Counts)]
    assert all(f"`{name}`" in PAGE for name in STREAM_COLUMNS)
