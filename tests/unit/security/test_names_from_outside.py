"""Names from a service are escaped or refused before they reach a path, SQL or a partition."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets import KinesisDataSource, build_kinesis_stream
from kinesis_assets.errors import (
    CallFailed,
    InvalidInput,
    KinesisAssetsError,
    ReadFailed,
    ShardListIncomplete,
)
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.table.row_predicates import sql_text

if TYPE_CHECKING:
    from kinesis_assets.testing import Faults
    from support.bench import Bench
from support.conditions import Condition

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


def is_short_line(error: KinesisAssetsError) -> bool:
    return len(str(error)) < 600 and all(letter.isprintable() for letter in str(error))


# Shards


PARENTS = ("ParentShardId", "AdjacentParentShardId")


@pytest.mark.parametrize(
    ("member", "name"),
    [
        *(pytest.param("ShardId", name, id=key) for key, name in HOSTILE.items()),
        *(
            pytest.param(parent, HOSTILE[key], id=f"{key}-{parent}")
            for parent in PARENTS
            for key in ("path", "sql")
        ),
    ],
)
def test_an_invalid_shard_name_is_an_error_before_anything_is_changed(
    bench: Bench, faults: Faults, tmp_path: Path, name: str, member: str
) -> None:
    bench.create(2)

    def with_name(_: Any, response: Any) -> Any:
        first, second = response.members["Shards"]
        return response.but(Shards=[first | {member: name}, second])

    faults.answer("ListShards", with_name)
    with pytest.raises(ShardListIncomplete, match=bench.stream) as caught:
        bench.run()
    assert is_short_line(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert faults.count("GetRecords") == 0


@pytest.mark.parametrize("number", ["", "-1", "1; --", "\u0663", "1e5", "0x1", " 1", "9" * 5000, "007"])
@pytest.mark.parametrize("member", ["HashKeyRange", "SequenceNumberRange"])
def test_invalid_sequence_numbers_of_a_shard_are_an_error(
    bench: Bench, faults: Faults, member: str, number: str
) -> None:
    bench.create()

    def changed(_: Any, response: Any) -> Any:
        (shard,) = response.members["Shards"]
        first = next(iter(shard[member]))
        return response.but(Shards=[shard | {member: shard[member] | {first: number}}])

    faults.answer("ListShards", changed)
    with pytest.raises(ShardListIncomplete) as caught:
        bench.client.list_shards()
    assert is_short_line(caught.value)


@pytest.mark.parametrize("member", ["ShardId", "HashKeyRange", "SequenceNumberRange"])
def test_a_shard_without_a_member_is_an_error(bench: Bench, faults: Faults, member: str) -> None:
    bench.create()

    def without(_: Any, response: Any) -> Any:
        (shard,) = response.members["Shards"]
        return response.but(Shards=[{name: value for name, value in shard.items() if name != member}])

    faults.answer("ListShards", without)
    with pytest.raises(ShardListIncomplete, match=f"without '{member}'"):
        bench.client.list_shards()


# Streams


@NAMES
def test_an_invalid_stream_name_is_refused_everywhere(bench: Bench, name: str) -> None:
    options = {"stream": name, "until": "2026-01-31T12:00:00Z", "region_name": "us-east-1"}
    for use in (
        lambda: StreamClient(name, bench.settings),
        lambda: build_kinesis_stream(name, table="orders"),
        lambda: KinesisDataSource(options).reader(None).partitions(),
    ):
        with pytest.raises(InvalidInput) as caught:
            use()
        assert is_short_line(caught.value)


@NAMES
def test_an_invalid_arn_is_an_error_before_anything_is_changed(
    bench: Bench, faults: Faults, tmp_path: Path, name: str
) -> None:
    bench.create()

    def with_name(_: Any, response: Any) -> Any:
        summary = response.members["StreamDescriptionSummary"]
        return response.but(
            StreamDescriptionSummary=summary | {"StreamARN": f"arn:aws:kinesis:::stream/{name}"}
        )

    faults.answer("DescribeStreamSummary", with_name)
    with pytest.raises(CallFailed, match="arn:aws:kinesis:::stream/") as caught:
        bench.run()
    assert is_short_line(caught.value)
    assert list(tmp_path.iterdir()) == []


# Records


def put_keys(bench: Bench, *partition_keys: str) -> None:
    for key in partition_keys:
        bench.kinesis.put_record(StreamName=bench.stream, Data=b"x", PartitionKey=key, ExplicitHashKey="0")


def test_partition_keys_are_stored_unchanged_and_create_no_paths(
    bench: Bench, faults: Faults, tmp_path: Path
) -> None:
    keys = sorted(HOSTILE.values())
    bench.create()
    bench.put(*range(len(keys)))

    def with_name(_: Any, response: Any) -> Any:
        records = zip(response.members["Records"], keys, strict=False)
        return response.but(Records=[record | {"PartitionKey": key} for record, key in records])

    faults.answer("GetRecords", with_name, times=1)
    bench.run()
    assert sorted(row["partition_key"].encode() for row in bench.rows) == sorted(map(str.encode, keys))
    assert [folder.name for folder in tmp_path.iterdir()] == ["table"]
    (day,) = {row["arrival_date"].isoformat() for row in bench.rows}
    folders = {path.name for path in (tmp_path / "table").iterdir()}
    assert folders == {"_delta_log", "_kinesis", f"arrival_date={day}"}


def test_partition_keys_that_the_service_accepts_are_stored_unchanged(bench: Bench) -> None:
    keys = ["../x", "'; --", '"', "a\nb", "a\0b", " ", "\ufeff", "e\u0301", "\xe9", "𝄞" * 256, "\\u0041"]
    bench.create()
    put_keys(bench, *keys)
    bench.run()
    assert [row["partition_key"].encode() for row in bench.rows] == [key.encode() for key in keys]


@NAMES
def test_an_invalid_sequence_number_fails_its_shard_only(bench: Bench, faults: Faults, name: str) -> None:
    first, second = bench.create(2)
    bench.put(1, shard_id=first)
    bench.put(2, shard_id=second)

    def with_name(_: Any, response: Any) -> Any:
        records = [record | {"SequenceNumber": name} for record in response.members["Records"]]
        return response.but(Records=records)

    faults.answer("GetRecords", with_name, shard_id=second)
    outcomes = bench.run().outcomes
    assert outcomes[first].error is None
    error = outcomes[second].error
    assert isinstance(error, ReadFailed)
    assert is_short_line(error)
    assert bench.items == [1]


@NAMES
def test_an_error_message_of_the_service_is_one_line(bench: Bench, faults: Faults, name: str) -> None:
    bench.create()
    faults.answer("ListShards", lambda _, response: response.error(name).but(message=name))
    with pytest.raises(CallFailed) as caught:
        bench.client.list_shards()
    assert str(caught.value).isprintable()


# SQL


@NAMES
def test_a_text_in_a_predicate_is_escaped(bench: Bench, faults: Faults, name: str) -> None:
    bench.create()
    bench.put(1, 2, 3)

    def with_name(_: Any, response: Any) -> Any:
        first, *others = response.members["Records"]
        return response.but(Records=[first | {"PartitionKey": name}, *others])

    faults.answer("GetRecords", with_name, times=1)
    bench.run()
    identity = bench.client.describe().identity
    remove = bench.table.snapshot().remove
    assert remove(Condition(f"shard_id = {sql_text(name)}"), identity=identity) == 0
    assert remove(Condition(f"partition_key = {sql_text(name)}"), identity=identity) == 1
    assert bench.items == [2, 3]


# Tables


@pytest.mark.parametrize(
    "name",
    ["a\0b", "a\nb", "x" * 10_000, "50%", "~nobody-has-this-name/x", "\udcff", "s3://b/../x", "s3://b/x?y=z"],
)
def test_a_table_uri_that_libraries_cannot_open_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        PositionedTable(name)
    assert is_short_line(caught.value)


@pytest.mark.parametrize("name", ["a b", "'; DROP TABLE x", 'a"b', "$(x)", "é", "a?b#c", "arrival_date=1"])
def test_a_folder_with_a_special_name_is_the_same_to_all_libraries(
    bench: Bench, tmp_path: Path, name: str
) -> None:
    bench.create()
    bench.put(1)
    bench.table = PositionedTable(str(tmp_path / name))
    bench.run()
    assert bench.items == [1]
    assert {path.name for path in tmp_path.iterdir()} == {name}
    assert PositionedTable(bench.table.folder.uri).folder == bench.table.folder


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
