"""The contract's lines 1, 2 and 14 for a stream of another account, which is reached by its ARN alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from deltalake import DeltaTable

from kinesis_assets import cli
from kinesis_assets.dagster.in_process import StreamProject, run_replay
from kinesis_assets.errors import StreamNotFound
from support.pipeline import SPARK_CONFIG

if TYPE_CHECKING:
    from kinesis_assets.testing import LocalKinesis
    from support.pipeline import Pipeline

OWNER = "111122223333"


@pytest.fixture
def shared(pipeline: Pipeline, local_kinesis: LocalKinesis) -> str:
    """The ARN of the pipeline's stream, which is the other account's: it creates, puts and describes."""
    pipeline.kinesis = boto3.client(
        "kinesis",
        endpoint_url=local_kinesis.endpoint_url,
        region_name=local_kinesis.region,
        aws_access_key_id=OWNER,
        aws_secret_access_key="any",  # noqa: S106  # the embedded stream checks none
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


def streams_in(pipeline: Pipeline) -> set[Any]:
    """The names in the column `stream`."""
    return set(DeltaTable(pipeline.table.uri).to_pyarrow_table(columns=["stream"])["stream"].to_pylist())


def test_a_shared_stream_lands_exactly_once_by_its_arn_and_by_its_name_nothing_is_touched(
    pipeline: Pipeline, shared: str, faults: Any, monkeypatch: Any, capsys: Any
) -> None:
    pipeline.put_many(200)
    with pytest.raises(StreamNotFound):
        list(project_of(pipeline, pipeline.stream).materialize(pipeline.instance, list(pipeline.listed())))
    faults.calls.clear()

    project = project_of(pipeline, shared)
    facts = list(project.materialize(pipeline.instance, ["shardId-000000000000", "shardId-000000000001"]))

    assert {fact["state"] for fact in facts} == {"committed"}
    assert {fact["stream"] for fact in facts} == {pipeline.stream}
    pipeline.assert_exactly_once()
    assert not [call for call in faults.calls if "StreamName" in call.arguments]
    assert streams_in(pipeline) == {pipeline.stream}
    with project.open_stream() as opened:
        identity = opened.client.describe().identity
    assert identity.arn == shared
    assert pipeline.table.snapshot().positions(identity) is not None

    DeltaTable(pipeline.table.uri).delete(f"sequence_number = '{pipeline.acknowledged[0][1]}'")
    told = run_replay(project, pipeline.instance, start="TRIM_HORIZON")
    assert sum(fact["rows"] for fact in told) == 1
    pipeline.assert_exactly_once()
    assert streams_in(pipeline) == {pipeline.stream}

    options = ["--stream", shared, "--table", pipeline.table.uri]
    endpoint = ["--endpoint-url", str(pipeline.settings.endpoint_url)]
    monkeypatch.setattr("sys.argv", ["kinesis-assets", "positions", *options, *endpoint, "--json"])
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["stream"] for row in rows} == {pipeline.stream}
    assert len(rows) == 2
