"""Lines 2 (exactly once) and 14 (identity) of the contract, for a stream that another account shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest
from deltalake import DeltaTable

from kinesis_assets.dagster.stream_project import StreamProject, run_replay
from kinesis_assets.errors import StreamNotFound
from support.pipeline import SPARK_CONFIG
from support.table_folder import exists

if TYPE_CHECKING:
    from kinesis_assets.testing import LocalKinesis
    from support.command_line import RunCommand
    from support.pipeline import Pipeline

OWNER = "111122223333"


@pytest.fixture
def shared(pipeline: Pipeline, local_kinesis: LocalKinesis) -> str:
    """Makes the pipeline's stream another account's, which shares it, and returns its ARN."""
    pipeline.kinesis = boto3.client(
        "kinesis",
        endpoint_url=local_kinesis.endpoint_url,
        region_name=local_kinesis.region,
        aws_access_key_id=OWNER,
        aws_secret_access_key="any",  # noqa: S106  # the emulator verifies no signature
    )
    pipeline.kinesis.create_stream(StreamName=pipeline.stream, ShardCount=2)
    arn = f"arn:aws:kinesis:{local_kinesis.region}:{OWNER}:stream/{pipeline.stream}"
    local_kinesis.share(arn)
    return arn


def project_of(pipeline: Pipeline, stream: str) -> StreamProject:
    return StreamProject.from_settings(
        stream,
        table=pipeline.table.uri,
        endpoint_url=pipeline.settings.endpoint_url,
        spark_config=SPARK_CONFIG,
    )


def streams_in_table(pipeline: Pipeline) -> set[Any]:
    """Return the values of the column `stream`."""
    return set(pipeline.arrow("stream")["stream"].to_pylist())


def test_the_name_of_a_shared_stream_is_not_its_identity(pipeline: Pipeline, shared: str) -> None:
    del shared
    with pytest.raises(StreamNotFound):
        list(project_of(pipeline, pipeline.stream).materialize(pipeline.instance, list(pipeline.listed())))
    assert not exists(pipeline.table)


def test_a_shared_stream_is_read_and_replayed_exactly_once_by_its_arn(
    pipeline: Pipeline, shared: str, faults: Any, cli: RunCommand
) -> None:
    pipeline.put_many(200)
    faults.calls.clear()
    project = project_of(pipeline, shared)
    events = list(project.materialize(pipeline.instance, ["shardId-000000000000", "shardId-000000000001"]))

    assert {event["state"] for event in events} == {"committed"}
    assert {event["stream"] for event in events} == {pipeline.stream}
    pipeline.assert_exactly_once()
    assert not [call for call in faults.calls if "StreamName" in call.arguments]
    assert streams_in_table(pipeline) == {pipeline.stream}
    with project.open_stream() as opened:
        identity = opened.client.describe().identity
    assert identity.arn == shared
    assert pipeline.table.snapshot().positions(identity) is not None

    DeltaTable(pipeline.table.uri).delete(f"sequence_number = '{pipeline.acknowledged[0][1]}'")
    replayed = run_replay(project, pipeline.instance, start="TRIM_HORIZON")
    assert sum(event["rows"] for event in replayed) == 1
    pipeline.assert_exactly_once()
    assert streams_in_table(pipeline) == {pipeline.stream}

    table = ["--table", pipeline.table.uri, "--endpoint-url", str(pipeline.settings.endpoint_url)]
    listed = cli("positions", "--stream", shared, *table, "--json")
    assert listed.exit_code == 0
    assert [row["stream"] for row in listed.lines] == [pipeline.stream] * 2
