"""A Spark Connect server that tampers with the manifests of tasks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from kinesis_assets.ingest.land import land
from kinesis_assets.operations.replay.task import fill
from support.bench import Bench

if TYPE_CHECKING:
    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.operations.replay.outcome import ReplayResult

A, B = (f"shardId-{number:012d}" for number in range(2))
BEYOND = 10**80
"""A number after every sequence number."""

Manifest = dict[str, Any]
Tamper = Callable[[Manifest], object]


class HostileSpark:
    """Runs the tasks of a job in this process, and tampers with their manifests."""

    def __init__(self, tamper: Tamper) -> None:
        self._tamper = tamper
        self.conf: dict[str, str] = {}
        self.sparkContext = SimpleNamespace(
            defaultParallelism=1, addJobTag=lambda _: None, removeJobTag=lambda _: None
        )

    def range(self, *_: int) -> HostileSpark:
        return self

    def mapInArrow(self, task: Any, _: str) -> SimpleNamespace:  # noqa: N802  # Spark's name
        def collect() -> list[tuple[object]]:
            (batch,) = task([pa.record_batch({"id": [0]})])
            (content,) = batch.column(0).to_pylist()
            tampered = self._tamper(msgspec.msgpack.decode(content))
            return [(tampered if isinstance(tampered, bytes | str) else msgspec.msgpack.encode(tampered),)]

        return SimpleNamespace(collect=collect)


class HostileBench(Bench):
    """A bench whose tasks run on a server that tampers with their manifests."""

    def run_tampered(self, tamper: Tamper, **settings: Any) -> RunResult:
        return self.run([A, B], land=partial(land, HostileSpark(tamper)), **settings)

    def replay_tampered(self, tamper: Tamper) -> ReplayResult:
        return self.replay(fill=partial(fill, HostileSpark(tamper)))


# Changes of a manifest


def unchanged(manifest: Manifest) -> Manifest:
    return manifest


def changed_by(change: Callable[[Manifest], object]) -> Tamper:
    """Return a function that changes a manifest in place and returns it."""

    def tamper(manifest: Manifest) -> Manifest:
        change(manifest)
        return manifest

    return tamper


def with_field(name: str, value: object, part: str = "shards") -> Tamper:
    """Set a field of the first shard, or of the first file."""
    return changed_by(lambda manifest: _change(manifest[part][0], {name: value}))


def with_path(make: Callable[[str], str]) -> Tamper:
    """Change the first file's path."""
    return changed_by(lambda manifest: manifest["files"][0].update(path=make(manifest["files"][0]["path"])))


def with_stats(**fields: Any) -> Tamper:
    """Set facts about the first shard's range."""
    return changed_by(lambda manifest: _change(manifest["shards"][0]["stats"], fields))


def with_facts(**fields: Any) -> Tamper:
    """Set facts about reading the first shard."""
    return changed_by(lambda manifest: _change(manifest["shards"][0]["facts"], fields))


def with_position(name: str, **fields: Any) -> Tamper:
    """Change the first shard's start or the position that it was read through."""
    return changed_by(lambda manifest: manifest["shards"][0]["stats"][name].update(fields))


def _change(record: dict[str, Any], fields: dict[str, Any]) -> None:
    assert fields.keys() <= record.keys()  # an unknown field would be refused for being unknown
    record.update(fields)
