"""A hostile Spark Connect server: its results of tasks execute no code and commit nothing."""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kinesis_assets.errors import LandingFailed, ReadFailed, ShardError
from kinesis_assets.ingest import manifest
from kinesis_assets.ingest.land import land
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.limits import Allowance, Bounds
from kinesis_assets.kinesis.start_positions import StartPositions
from kinesis_assets.kinesis.stream import CLOCK_STEP
from kinesis_assets.replay.run import replay
from kinesis_assets.replay.task import fill
from kinesis_assets.replay.window import ReplayWindow
from kinesis_assets.table.table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.kinesis.settings import ClientSettings

pytestmark = pytest.mark.usefixtures("shared_sdk_clients")

A, B = (f"shardId-{number:012d}" for number in range(2))
LATER = 10**40

Manifest = dict[str, Any]


class HostileSpark:
    """Runs the tasks of a job in this process, and tampers with their manifests."""

    def __init__(self, tamper: Callable[[Manifest], object]) -> None:
        self._tamper = tamper
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


@dataclass
class Bench:
    """A stream of two shards with three records each; the first of each is in the table."""

    client: StreamClient
    table: PositionedTable

    def run(self, tamper: Callable[[Manifest], object], **bounds: Any) -> RunResult:
        policy = ReadPolicy(StartPositions.of("TRIM_HORIZON"), Bounds(**bounds), Allowance())
        plan = plan_run(self.client, self.table, asked=[A, B], policy=policy)
        return execute_run(partial(land, HostileSpark(tamper)), self.client, self.table, plan)

    def replay(self, tamper: Callable[[Manifest], object]) -> Any:
        return replay(
            partial(fill, HostileSpark(tamper)), self.client, self.table, ReplayWindow.of("TRIM_HORIZON")
        )

    @property
    def version(self) -> int:
        return DeltaTable(self.table.uri).version()


def prepared(kinesis: Any, settings: ClientSettings, stream: str, table: PositionedTable) -> Bench:
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    for key in ("0", str((1 << 128) - 1)):
        entries = [{"Data": b"%d" % item, "PartitionKey": "k", "ExplicitHashKey": key} for item in range(3)]
        kinesis.put_records(StreamName=stream, Records=entries)
    bench = Bench(StreamClient(stream, settings), table)
    bench.run(unchanged, max_records=1)
    return bench


@pytest.fixture
def bench(kinesis: Any, settings: ClientSettings, stream: str, table: PositionedTable) -> Bench:
    return prepared(kinesis, settings, stream, table)


@pytest.fixture(scope="module")
def unread(kinesis: Any, settings: ClientSettings, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A bench for all tests that commit nothing: rows are left to read."""
    return prepared(kinesis, settings, "unread", PositionedTable(str(tmp_path_factory.mktemp("unread"))))


@pytest.fixture(scope="module")
def holed(kinesis: Any, settings: ClientSettings, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A bench for all replays that commit nothing: rows are left to fill in."""
    bench = prepared(kinesis, settings, "holed", PositionedTable(str(tmp_path_factory.mktemp("holed"))))
    bench.run(unchanged)
    DeltaTable(bench.table.uri).delete("true")
    return bench


def unchanged(landing: Manifest) -> Manifest:
    return landing


def test_an_unchanged_manifest_is_committed(bench: Bench) -> None:
    assert [outcome.rows for outcome in bench.run(unchanged).outcomes.values()] == [2, 2]


# Content that is no manifest


class Bomb:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._path),)


@pytest.mark.parametrize("operation", ["run", "replay"])
def test_a_pickle_in_place_of_a_manifest_is_not_executed(
    bench: Bench, tmp_path: Path, operation: str
) -> None:
    bomb = tmp_path / "bomb"
    content = pickle.dumps(Bomb(bomb))
    with pytest.raises(LandingFailed, match="returned an invalid manifest, nothing was committed: "):
        getattr(bench, operation)(lambda _: content)
    assert not bomb.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"\xc1", b"\x90", b"\x80\x80", b"\x91" * 100_000, "text", msgspec.msgpack.encode({"files": 1})],
    ids=["empty", "no MessagePack", "a list", "two", "deep", "text", "another type"],
)
def test_invalid_content_is_reported_in_one_line_and_commits_nothing(
    unread: Bench, content: bytes | str
) -> None:
    before = unread.version
    with pytest.raises(
        LandingFailed, match=r"^stream .*: a Spark task returned an invalid manifest, "
    ) as raised:
        unread.run(lambda _: content)
    assert len(str(raised.value).splitlines()) == 1
    assert unread.version == before


def test_a_manifest_that_is_too_large_is_not_decoded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "MAX_BYTES", 100)
    with pytest.raises(LandingFailed, match=r"nothing was committed: \d+ bytes, more than 100"):
        bench.run(unchanged)


# Manifests with invalid content


def set_(name: str, value: object, part: str = "shards") -> Callable[[Manifest], Manifest]:
    """Sets a field of the first shard, or of the first file."""

    def tamper(landing: Manifest) -> Manifest:
        landing[part][0][name] = value
        return landing

    return tamper


def with_(change: Callable[[Manifest], object]) -> Callable[[Manifest], Manifest]:
    def tamper(landing: Manifest) -> Manifest:
        change(landing)
        return landing

    return tamper


def path(make: Callable[[str], str]) -> Callable[[Manifest], Manifest]:
    """Changes the first file's path."""
    return with_(lambda landing: landing["files"][0].update(path=make(landing["files"][0]["path"])))


def stats(**fields: Any) -> Callable[[Manifest], Manifest]:
    """Sets facts about the first shard's range."""
    return with_(lambda landing: landing["shards"][0]["stats"].update(fields))


def position(name: str, **fields: Any) -> Callable[[Manifest], Manifest]:
    """Changes the first shard's start or the position that it was read through."""
    return with_(lambda landing: landing["shards"][0]["stats"][name].update(fields))


def read_through(landing: Manifest, number: str) -> None:
    """Sets the first shard's last row and its position."""
    facts = landing["shards"][0]["stats"]
    facts["through"].update(sequence_number=number)
    facts["last_sequence_number"] = number


def start_of(shard: Manifest) -> str:
    """Return the number of the record that the first run committed, which is before the shard's range."""
    return str(int(shard["stats"]["first_sequence_number"]) - 1)


def idle(shard: Manifest) -> None:
    """Report that nothing was read of a shard, although it moved."""
    shard.update(first_arrival=None, last_arrival=None)
    shard["stats"].update(rows=0, bytes=0, checksum=0, first_sequence_number=None, last_sequence_number=None)


def idle_that_moved(landing: Manifest) -> None:
    idle(landing["shards"][0])
    for file in landing["files"]:
        file["rows_by_shard"].pop(A, None)


def facts_of_no_rows(landing: Manifest, **facts: Any) -> None:
    """Facts about rows of a shard of which nothing was read."""
    idle_that_moved(landing)
    shard = landing["shards"][0]["stats"]
    shard.update(through=shard["start"], **facts)


def numbers_of_no_rows(landing: Manifest) -> None:
    facts_of_no_rows(landing, first_sequence_number="1", last_sequence_number="1")


def shift_rows(landing: Manifest) -> None:
    """Report rows of one shard as the other's, with the right sum."""
    landing["files"][0]["rows_by_shard"].update({A: 1, B: 3})


def gap_without_offset(landing: Manifest) -> None:
    after = landing["shards"][0]["stats"]["through"]
    gap = {"after": after, "since": None, "next_sequence_number": None, "until": "2026-01-31T12:00:00"}
    landing["shards"][0]["gaps"] = [gap]


TOMORROW = datetime.now(UTC) + timedelta(days=1)

LIES: dict[str, Callable[[Manifest], Manifest]] = {
    # Files
    "a path above the table": path(lambda name: f"../../{name}"),
    "a path that leaves its folder": path(lambda name: name.replace("/", "/../../")),
    "an absolute path": path(lambda name: f"/{name}"),
    "another store": path(lambda name: f"s3://other/{name}"),
    "an encoded path": path(lambda name: name.replace("/", "%2F")),
    "a path with a line's end": path(lambda name: f"{name}\n"),
    "a file of the log": path(lambda _: "_delta_log/00000000000000000000.json"),
    "another batch's file": path(lambda name: name.replace("part-", "part-1")),
    "another date's folder": path(lambda name: name.replace("arrival_date=2", "arrival_date=1")),
    "another batch": set_("batch_id", 7, "files"),
    "another date": set_("arrival_date", "2020-01-01", "files"),
    "arrivals of another date": set_("last_arrival", TOMORROW, "files"),
    "an arrival without an offset": set_("first_arrival", "2026-01-31T12:00:00", "files"),
    "an empty file": set_("size", 0, "files"),
    "a file twice": with_(lambda landing: landing["files"].append(landing["files"][0])),
    "a file of no shard": set_("rows_by_shard", {}, "files"),
    "rows of another shard": set_("rows_by_shard", {A: 2, B: 2, "shardId-9": 1}, "files"),
    "fewer than no rows": set_("rows_by_shard", {A: 2, B: 3, "shardId-9": -1}, "files"),
    "another shard's rows": with_(shift_rows),
    "no file": with_(lambda landing: landing["files"].clear()),
    # Shards
    "a shard that was not asked for": set_("shard_id", "shardId-9"),
    "a shard too few": with_(lambda landing: landing["shards"].pop()),
    "a shard twice": with_(lambda landing: landing["shards"].append(landing["shards"][0])),
    "more rows than its files have": stats(rows=3),
    "fewer rows than none": stats(rows=-1),
    "more marked rows than rows": set_("bad_records", 3),
    "fewer bytes than none": stats(bytes=-1),
    "fewer than no checksums": stats(checksum=-1),
    "rows without numbers": stats(first_sequence_number=None, last_sequence_number=None),
    "an end and an error": set_("error", ["ReadFailed", A, "no answer"]),
    "neither end nor error": set_("end", None),
    "an unknown end": set_("end", "never"),
    "a field that there is not": set_("surprise", 1),
    "a fact that there is not": stats(surprise=1),
    "numbers of no rows": with_(numbers_of_no_rows),
    "bytes of no rows": with_(partial(facts_of_no_rows, bytes=1)),
    "a checksum of no rows": with_(partial(facts_of_no_rows, checksum=1)),
    # Positions
    "another start": position("start", sequence_number="1"),
    "back at the start": with_(partial(read_through, number="0")),
    "before its first record": with_(lambda landing: read_through(landing, start_of(landing["shards"][0]))),
    "a first record before the start": stats(first_sequence_number="1"),
    "a first record after the last": stats(first_sequence_number=str(LATER * LATER)),
    "no first record": stats(first_sequence_number=None),
    "no last record": stats(last_sequence_number=None),
    "a last record before the position": with_(
        lambda landing: stats(last_sequence_number=landing["shards"][0]["stats"]["first_sequence_number"])(
            landing
        )
    ),
    "a position after the last record": position("through", sequence_number=str(LATER * LATER)),
    "a number that is none": stats(first_sequence_number="1e9"),
    "a position of no number": position("through", sequence_number="x"),
    "the latest position": stats(through={"kind": "LATEST"}),
    "moved without a record": with_(idle_that_moved),
    # Times
    "a tip without an offset": set_("tip_time", "2026-01-31T12:00:00"),
    "rows that never arrived": set_("last_arrival", None),
    "a gap without an offset": with_(gap_without_offset),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_an_invalid_manifest_commits_nothing(unread: Bench, lie: Callable[[Manifest], Manifest]) -> None:
    before = unread.version
    with pytest.raises(LandingFailed, match="returned an invalid manifest, nothing was committed: "):
        unread.run(lie)
    assert unread.version == before


def test_the_run_after_an_invalid_manifest_commits_the_records(bench: Bench) -> None:
    with pytest.raises(LandingFailed):
        bench.run(stats(rows=3))
    assert [outcome.rows for outcome in bench.run(unchanged).outcomes.values()] == [2, 2]


@pytest.mark.parametrize("field", ["tip_time", "last_arrival"])
@pytest.mark.parametrize("time", [TOMORROW, "9999-12-31T23:59:59Z"], ids=["tomorrow", "the last day"])
def test_a_time_in_the_future_is_stored_as_the_services_time(bench: Bench, field: str, time: str) -> None:
    bench.run(set_(field, time))
    summary = bench.client.describe()
    positions = bench.table.snapshot().positions(summary.identity)
    assert positions is not None
    assert getattr(positions.shards[A], field) <= summary.service_time + CLOCK_STEP


def filled_nothing(filling: Manifest) -> None:
    """As if no row of a shard was filled in, though its numbers are given."""
    filling["shards"][0]["stats"].update(rows=0, bytes=0, checksum=0)
    for file in filling["files"]:
        file["rows_by_shard"].pop(A, None)


FILLING_LIES: dict[str, Callable[[Manifest], Manifest]] = {
    "a path above the table": path(lambda name: f"../../{name}"),
    "another start": stats(start={"kind": "LATEST"}),
    "more rows than records": set_("read", 2),
    "more rows than its files have": stats(rows=4),
    "numbers of no rows": with_(filled_nothing),
    "past the committed position": with_(
        lambda filling: filling["shards"][0]["stats"]["through"].update(sequence_number=str(LATER * LATER))
    ),
    "a last row after the last record": stats(last_sequence_number=str(LATER * LATER)),
    "a first row before the first record": stats(first_sequence_number="1"),
    "no last row": stats(last_sequence_number=None),
    "neither end nor error": set_("end", None),
    "a shard too few": with_(lambda filling: filling["shards"].pop()),
}


@pytest.mark.parametrize("lie", FILLING_LIES.values(), ids=FILLING_LIES.keys())
def test_an_invalid_manifest_of_a_replay_commits_nothing(
    holed: Bench, lie: Callable[[Manifest], Manifest]
) -> None:
    before = holed.version
    with pytest.raises(LandingFailed, match="returned an invalid manifest, nothing was committed: "):
        holed.replay(lie)
    assert holed.version == before


def test_the_replay_after_an_invalid_manifest_fills_the_holes(bench: Bench) -> None:
    bench.run(unchanged)
    DeltaTable(bench.table.uri).delete("true")
    with pytest.raises(LandingFailed):
        bench.replay(stats(rows=4))
    assert [outcome.rows for outcome in bench.replay(unchanged).outcomes.values()] == [3, 3]


# Errors


def failed(*error: str) -> Callable[[Manifest], Manifest]:
    return with_(lambda landing: landing["shards"][0].update(end=None, error=error))


def test_the_error_of_a_shard_keeps_its_class(bench: Bench) -> None:
    error: ShardError = bench.run(failed("ReadFailed", A, "no answer")).errors[A]
    assert type(error) is ReadFailed
    assert str(error) == f"{A}: no answer"


@pytest.mark.parametrize("name", ["LandingFailed", "SystemExit", "os.system", "InvalidInput", ""])
def test_an_error_of_an_unknown_class_is_refused(unread: Bench, name: str) -> None:
    with pytest.raises(
        LandingFailed, match=f"nothing was committed: {name!r} is not the class of a shard's error"
    ):
        unread.run(failed(name, A, "x"))


def test_another_shards_error_is_refused(unread: Bench) -> None:
    with pytest.raises(LandingFailed, match="another shard's error"):
        unread.run(failed("ReadFailed", B, "x"))


def test_an_error_of_the_server_is_one_line_without_control_characters(bench: Bench) -> None:
    error = bench.run(failed("ReadFailed", A, "a\n\x1b[31mb\x07")).errors[A]
    assert str(error) == f"{A}: a b\\x07"
