"""Names from a service are escaped or refused before they reach a path, SQL or a partition."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from kinesis_assets import KinesisDataSource, build_kinesis_stream
from kinesis_assets.errors import (
    CallFailed,
    InvalidInput,
    KinesisAssetsError,
    ReadFailed,
    ShardListIncomplete,
)
from kinesis_assets.ingest.outcome import RunResult
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.table.row_predicates import sql_text
from kinesis_assets.table.table import PositionedTable
from support.timing import READING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.testing import Faults

HOSTILE = {
    "path": "../../../../outside",
    "absolute": "/tmp/outside",  # noqa: S108  # must not come to be
    "sql": "x' OR '1'='1'; DROP TABLE rows; --",
    "double quotes": '"; rm -rf "$HOME"',
    "shell": "$(touch outside) `touch outside` | touch outside &",
    "backslash": "a\\'",
    "lines": "a\nERROR b\r",
    "colours": "\x1b[31mred",
    "NUL": "a\0b",
    "unicode": "ünï𝄞\u202e",
    "percent": "%2e%2e%2f%00",
    "long": "x" * 10_000,
}
NAMES = pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())


def assert_short_line(error: KinesisAssetsError) -> bool:
    return len(str(error)) < 600 and all(letter.isprintable() for letter in str(error))


@pytest.fixture
def run(settings: ClientSettings, stream: str, table: PositionedTable) -> Callable[[], RunResult]:
    """Executes a run over all shards."""

    def run() -> RunResult:
        client = StreamClient(stream, replace(settings, timing=READING))
        asked = [shard.shard_id for shard in client.list_shards()]
        plan = plan_run(client, table, asked=asked, policy=ReadPolicy())
        return execute_run(land_group, client, table, plan)

    return run


def rows(table: PositionedTable) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(table.folder.uri).to_pyarrow_table().to_pylist()
    return found


# Shards


MEMBERS = ("ShardId", "ParentShardId", "AdjacentParentShardId")


@NAMES
@pytest.mark.parametrize("member", MEMBERS)
def test_an_invalid_shard_name_is_an_error_before_anything_is_changed(
    kinesis: Any, stream: str, run: Any, faults: Faults, tmp_path: Path, name: str, member: str
) -> None:
    kinesis.create_stream(StreamName=stream, ShardCount=2)

    def renamed(_: Any, answer: Any) -> Any:
        first, second = answer.members["Shards"]
        return answer.but(Shards=[first | {member: name}, second])

    faults.answer("ListShards", renamed)
    with pytest.raises(ShardListIncomplete, match=stream) as caught:
        run()
    assert assert_short_line(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert faults.count("GetRecords") == 0


@pytest.mark.parametrize("number", ["", "-1", "1; --", "\u0663", "1e5", "0x1", " 1", "9" * 5000, "007"])
@pytest.mark.parametrize("member", ["HashKeyRange", "SequenceNumberRange"])
def test_invalid_sequence_numbers_of_a_shard_are_an_error(
    kinesis: Any, settings: ClientSettings, stream: str, faults: Faults, member: str, number: str
) -> None:
    kinesis.create_stream(StreamName=stream, ShardCount=1)

    def changed(_: Any, answer: Any) -> Any:
        (shard,) = answer.members["Shards"]
        first = next(iter(shard[member]))
        return answer.but(Shards=[shard | {member: shard[member] | {first: number}}])

    faults.answer("ListShards", changed)
    with pytest.raises(ShardListIncomplete) as caught:
        StreamClient(stream, settings).list_shards()
    assert assert_short_line(caught.value)


@pytest.mark.parametrize("member", ["ShardId", "HashKeyRange", "SequenceNumberRange"])
def test_a_shard_without_a_member_is_an_error(
    kinesis: Any, settings: ClientSettings, stream: str, faults: Faults, member: str
) -> None:
    kinesis.create_stream(StreamName=stream, ShardCount=1)

    def without(_: Any, answer: Any) -> Any:
        (shard,) = answer.members["Shards"]
        return answer.but(Shards=[{name: value for name, value in shard.items() if name != member}])

    faults.answer("ListShards", without)
    with pytest.raises(ShardListIncomplete, match=f"without '{member}'"):
        StreamClient(stream, settings).list_shards()


# Streams


@NAMES
def test_an_invalid_stream_name_is_refused_everywhere(settings: ClientSettings, name: str) -> None:
    options = {"stream": name, "until": "2026-01-31T12:00:00Z", "region_name": "us-east-1"}
    for use in (
        lambda: StreamClient(name, settings),
        lambda: build_kinesis_stream(name, table="orders"),
        lambda: KinesisDataSource(options).reader(None).partitions(),
    ):
        with pytest.raises(InvalidInput) as caught:
            use()
        assert assert_short_line(caught.value)


@NAMES
def test_an_invalid_arn_is_an_error_before_anything_is_changed(
    kinesis: Any, stream: str, run: Any, faults: Faults, tmp_path: Path, name: str
) -> None:
    kinesis.create_stream(StreamName=stream, ShardCount=1)

    def renamed(_: Any, answer: Any) -> Any:
        summary = answer.members["StreamDescriptionSummary"]
        return answer.but(
            StreamDescriptionSummary=summary | {"StreamARN": f"arn:aws:kinesis:::stream/{name}"}
        )

    faults.answer("DescribeStreamSummary", renamed)
    with pytest.raises(CallFailed, match="returned the ARN") as caught:
        run()
    assert assert_short_line(caught.value)
    assert list(tmp_path.iterdir()) == []


# Records


def put(kinesis: Any, stream: str, *partition_keys: str) -> None:
    for key in partition_keys:
        kinesis.put_record(StreamName=stream, Data=b"x", PartitionKey=key, ExplicitHashKey="0")


def test_partition_keys_are_stored_unchanged_and_create_no_paths(
    kinesis: Any, stream: str, run: Any, faults: Faults, table: PositionedTable, tmp_path: Path
) -> None:
    keys = sorted(HOSTILE.values())
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    put(kinesis, stream, *("k" for _ in keys))

    def renamed(_: Any, answer: Any) -> Any:
        records = zip(answer.members["Records"], keys, strict=False)
        return answer.but(Records=[record | {"PartitionKey": key} for record, key in records])

    faults.answer("GetRecords", renamed, times=1)
    run()
    assert sorted(row["partition_key"].encode() for row in rows(table)) == sorted(map(str.encode, keys))
    assert [folder.name for folder in tmp_path.iterdir()] == ["table"]
    (day,) = {row["arrival_date"].isoformat() for row in rows(table)}
    folders = {path.name for path in (tmp_path / "table").iterdir()}
    assert folders == {"_delta_log", "_kinesis", f"arrival_date={day}"}


def test_partition_keys_that_the_service_accepts_are_stored_unchanged(
    kinesis: Any, stream: str, run: Any, table: PositionedTable
) -> None:
    keys = ["../x", "'; --", '"', "a\nb", "a\0b", " ", "\ufeff", "e\u0301", "\xe9", "𝄞" * 256, "\\u0041"]
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    put(kinesis, stream, *keys)
    run()
    found = sorted(rows(table), key=lambda row: int(row["sequence_number"]))
    assert [row["partition_key"].encode() for row in found] == [key.encode() for key in keys]


@NAMES
def test_an_invalid_sequence_number_fails_its_shard_only(
    kinesis: Any, stream: str, run: Any, faults: Faults, table: PositionedTable, name: str
) -> None:
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    first, second = (shard["ShardId"] for shard in kinesis.list_shards(StreamName=stream)["Shards"])
    put(kinesis, stream, "of the first")
    kinesis.put_record(StreamName=stream, Data=b"x", PartitionKey="k", ExplicitHashKey=str(1 << 127))

    def renamed(_: Any, answer: Any) -> Any:
        records = [record | {"SequenceNumber": name} for record in answer.members["Records"]]
        return answer.but(Records=records)

    faults.answer("GetRecords", renamed, shard_id=second)
    outcomes = run().outcomes
    assert outcomes[first].error is None
    error = outcomes[second].error
    assert isinstance(error, ReadFailed)
    assert assert_short_line(error)
    assert [row["partition_key"] for row in rows(table)] == ["of the first"]


@NAMES
def test_an_error_message_of_the_service_is_one_line(
    kinesis: Any, settings: ClientSettings, stream: str, faults: Faults, name: str
) -> None:
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    faults.answer("ListShards", lambda _, answer: answer.error(name).but(message=name))
    with pytest.raises(CallFailed) as caught:
        StreamClient(stream, settings).list_shards()
    assert str(caught.value).isprintable()


# SQL


@NAMES
def test_a_text_in_a_predicate_is_escaped(
    kinesis: Any,
    settings: ClientSettings,
    stream: str,
    run: Any,
    faults: Faults,
    table: PositionedTable,
    name: str,
) -> None:
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    put(kinesis, stream, "k", "k", "k")

    def renamed(_: Any, answer: Any) -> Any:
        first, *others = answer.members["Records"]
        return answer.but(Records=[first | {"PartitionKey": name}, *others])

    faults.answer("GetRecords", renamed, times=1)
    run()
    identity = StreamClient(stream, settings).describe().identity
    assert table.snapshot().remove(f"shard_id = {sql_text(name)}", identity=identity) == 0
    assert table.snapshot().remove(f"partition_key = {sql_text(name)}", identity=identity) == 1
    assert [row["partition_key"] for row in rows(table)] == ["k", "k"]


# Tables


@pytest.mark.parametrize(
    "name",
    ["a\0b", "a\nb", "x" * 10_000, "50%", "~nobody-has-this-name/x", "\udcff", "s3://b/../x", "s3://b/x?y=z"],
)
def test_a_table_uri_that_libraries_cannot_open_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        PositionedTable(name)
    assert assert_short_line(caught.value)


@pytest.mark.parametrize("name", ["a b", "'; DROP TABLE x", 'a"b', "$(x)", "é", "a?b#c", "arrival_date=1"])
def test_a_folder_with_a_special_name_is_the_same_to_all_libraries(
    kinesis: Any, settings: ClientSettings, stream: str, tmp_path: Path, name: str
) -> None:
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    put(kinesis, stream, "k")
    table = PositionedTable(str(tmp_path / name))
    client = StreamClient(stream, settings)
    plan = plan_run(client, table, asked=["shardId-000000000000"], policy=ReadPolicy())
    execute_run(land_group, client, table, plan)
    assert len(rows(table)) == 1
    assert {path.name for path in tmp_path.iterdir()} == {name}
    assert PositionedTable(table.folder.uri).folder == table.folder


def test_a_path_through_a_link_is_the_same_to_all_libraries(tmp_path: Path) -> None:
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "away")
    table = PositionedTable(f"{tmp_path}/link/../table")
    table.create_if_missing()
    assert Path(tmp_path, "far", "table", "_delta_log").is_dir()
    with table.files.open_output_stream("beside") as sink:
        sink.write(base64.b64encode(b"x"))
    assert Path(tmp_path, "far", "table", "beside").is_file()
    assert not (tmp_path / "table").exists()
