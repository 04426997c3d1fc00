"""A Spark Connect server of somebody else, whose workers have neither this package nor what it needs."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.mentions import assert_mentions
from support.tables import numbers, put_numbers


def test_a_run_ships_its_code_and_its_environment(connect_server, packed, run, kinesis, stream, tmp_path):
    put_numbers(kinesis, stream, 400, shards=3)
    code, events, errors = run(spark_config=connect_server.config, python_environment=str(packed))
    assert (code, len(events)) == (0, 3), errors
    assert numbers(tmp_path / "table") == list(range(400))


@pytest.mark.thorough
def test_a_stream_is_compared_with_a_table(
    connect_server, python_with_packages, command, kinesis, stream, tmp_path
):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    records = [{"Data": b"%d" % number, "PartitionKey": "k"} for number in range(3)]
    last = kinesis.put_records(StreamName=stream, Records=records)["Records"][-1]
    end = json.dumps({last["ShardId"]: f"AFTER_SEQUENCE_NUMBER:{last['SequenceNumber']}"})
    place = str(tmp_path / "other")
    pq.write_to_dataset(pa.table({"number": [0, 1, 1]}), place)
    code, shards, errors = command(
        *("compare", "--to", end, "--with", place, "--format", "parquet", "--key", "number"),
        *("--stream-key", "CAST(CAST(data AS STRING) AS BIGINT)"),
        spark_config=connect_server.config,
        python_executable=python_with_packages,
    )
    assert code == 1, errors
    sums = {name: sum(shard[name] for shard in shards) for name in ("equal", "missing", "doubled", "extra")}
    assert sums == {"equal": 2, "missing": 1, "doubled": 1, "extra": 0}, errors


@pytest.mark.thorough
def test_a_run_has_a_task_for_each_core_of_the_server(
    connect_server, python_with_packages, run, kinesis, stream, tmp_path
):
    put_numbers(kinesis, stream, 400, shards=6)
    code, _, errors = run(spark_config=connect_server.config, python_executable=python_with_packages)
    assert code == 0, errors
    assert len(list((tmp_path / "table").glob("arrival_date=*/*.parquet"))) >= 3, (
        "each task writes one for each date"
    )


def test_a_session_sends_modules_of_its_own(connect_server, shout):
    assert shout(connect_server.config) == "7!"


def test_an_environment_that_is_not_on_this_machine_is_refused(connect_server, run, kinesis, stream):
    put_numbers(kinesis, stream, 3)
    archive = "s3://lake/environment.tar.gz"
    code, _, errors = run(spark_config=connect_server.config, python_environment=archive)
    assert code == 2
    assert_mentions(errors, archive, "python_environment")
