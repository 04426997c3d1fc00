"""Fixtures of the Dagster parts: an instance, a stream's project, and records in chosen shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import dagster as dg
import pytest

from kinesis_assets.dagster.in_process import StreamProject

from daemon import Daemon  # isort: skip  # this folder's own

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kinesis_assets.kinesis.settings import ClientSettings


class Source:
    """A stream of the test's own."""

    def __init__(self, kinesis: Any, name: str) -> None:
        self.name = name
        self._kinesis = kinesis

    def sibling(self) -> Source:
        """Another stream of the test's own."""
        return Source(self._kinesis, f"{self.name}-sibling")

    def create(self, shard_count: int) -> None:
        self._kinesis.create_stream(StreamName=self.name, ShardCount=shard_count)

    def delete(self) -> None:
        self._kinesis.delete_stream(StreamName=self.name)

    def put(self, shard_id: str, count: int) -> list[str]:
        """Put records of five bytes into an open shard; their sequence numbers."""
        start, _ = self._hash_keys(shard_id)
        entries = [
            {"Data": b"%05d" % number, "PartitionKey": "k", "ExplicitHashKey": str(start)}
            for number in range(count)
        ]
        answer = self._kinesis.put_records(StreamName=self.name, Records=entries)
        return [record["SequenceNumber"] for record in answer["Records"]]

    def split(self, shard_id: str) -> None:
        """Split a shard in the middle."""
        middle = sum(self._hash_keys(shard_id)) // 2
        self._kinesis.split_shard(StreamName=self.name, ShardToSplit=shard_id, NewStartingHashKey=str(middle))

    def merge(self, shard_id: str, adjacent: str) -> None:
        self._kinesis.merge_shards(StreamName=self.name, ShardToMerge=shard_id, AdjacentShardToMerge=adjacent)

    def _hash_keys(self, shard_id: str) -> tuple[int, int]:
        listed = self._kinesis.list_shards(StreamName=self.name)["Shards"]
        (keys,) = (shard["HashKeyRange"] for shard in listed if shard["ShardId"] == shard_id)
        return int(keys["StartingHashKey"]), int(keys["EndingHashKey"])


class MakeProject(Protocol):
    """Makes the definitions of the test's stream; fields as in `build_kinesis_stream`."""

    def __call__(self, **fields: Any) -> StreamProject: ...


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """A Dagster instance of the test's own, on SQLite as a small deployment has it."""
    with dg.instance_for_test() as instance:
        yield instance


@pytest.fixture
def make_project(stream: str, settings: ClientSettings, tmp_path: Path) -> MakeProject:
    def make(**fields: Any) -> StreamProject:
        place = {"stream": stream, "table": str(tmp_path / "table"), "endpoint_url": settings.endpoint_url}
        return StreamProject.from_settings(**place | fields)

    return make


@pytest.fixture
def project(make_project: MakeProject) -> StreamProject:
    """The definitions of the test's stream, which the test creates."""
    return make_project()


@pytest.fixture
def daemon(project: StreamProject, instance: dg.DagsterInstance) -> Daemon:
    """Of the test's own stream, which the test creates."""
    return Daemon(project, instance)


@pytest.fixture
def source(kinesis: Any, stream: str) -> Source:
    """The test's own stream, which it creates."""
    return Source(kinesis, stream)
