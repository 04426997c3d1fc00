"""The benchmark suite measures what it says: the replay server is a stream, and CPU is a whole tree's."""

from __future__ import annotations

import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from benchmarks import __main__ as suite
from benchmarks.harness.measure import Command, Input, Measured, Usage, Work, interleaved
from benchmarks.harness.report import render
from benchmarks.harness.section import Goal, Section, Target
from benchmarks.harness.worker_protocol import Read
from benchmarks.sections.landing import Comparison, readers, targets
from benchmarks.servers.replay_client import replay_server
from benchmarks.servers.replay_streams import StreamSpec
from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.kinesis.shards import covers_all_hash_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.servers.replay_client import ReplayServer
    from kinesis_assets.kinesis.records.record import Record
    from kinesis_assets.kinesis.records.wire import Page

ORDERS = StreamSpec("orders", shards=3, pages=4, page_records=50, record_bytes=600)
TRIM_HORIZON = Position(PositionKind.TRIM_HORIZON)


@pytest.fixture(scope="module")
def server() -> Iterator[ReplayServer]:
    with replay_server() as server:
        server.create(ORDERS)
        yield server


@pytest.fixture
def client(server: ReplayServer) -> StreamClient:
    return StreamClient(ORDERS.name, ClientSettings("us-east-1", server.url))


def read(
    client: StreamClient, shard_id: str, start: Position = TRIM_HORIZON, limit: int = 10_000
) -> list[Page]:
    iterator: str | None = client.shard_iterator(shard_id, start)
    pages = []
    while iterator is not None:
        page, _ = client.get_records(iterator, limit)
        pages.append(page)
        iterator = page.next_shard_iterator if page.millis_behind_latest else None
    return pages


def records(pages: list[Page]) -> list[Record]:
    return [record for page in pages for record in page.records]


def test_every_record_of_the_replay_server_is_read_once(client: StreamClient) -> None:
    read_once = [record for shard in client.list_shards() for record in records(read(client, shard.shard_id))]
    assert len(read_once) == ORDERS.records
    assert len({record.sequence_number for record in read_once}) == ORDERS.records
    assert {len(record.data) for record in read_once} == {ORDERS.record_bytes}
    assert {len(record.sequence_number) for record in read_once} == {56}


def test_records_come_in_pages_in_the_order_of_numbers_and_arrivals(client: StreamClient) -> None:
    pages = read(client, "shardId-000000000001")
    in_order = records(pages)
    assert [len(page.records) for page in pages] == [50] * 4
    assert sorted(in_order, key=lambda record: int(record.sequence_number)) == in_order
    assert sorted(in_order, key=lambda record: record.arrival) == in_order


def test_another_limit_gives_the_same_records(client: StreamClient) -> None:
    shard_id = "shardId-000000000002"
    assert records(read(client, shard_id, limit=33)) == records(read(client, shard_id))


@pytest.mark.parametrize(("place", "left"), [(0, 199), (49, 150), (120, 79), (199, 0)])
def test_a_position_after_a_record_begins_with_the_next(client: StreamClient, place: int, left: int) -> None:
    shard_id = "shardId-000000000000"
    whole = records(read(client, shard_id))
    rest = records(read(client, shard_id, Position.after(whole[place].sequence_number)))
    assert rest == whole[place + 1 :]
    assert len(rest) == left


def test_a_time_begins_with_the_first_record_that_arrived_at_it(client: StreamClient) -> None:
    shard_id = "shardId-000000000000"
    whole = records(read(client, shard_id))
    assert records(read(client, shard_id, Position.at_timestamp(whole[70].arrival))) == whole[70:]


def test_shards_are_listed_a_thousand_at_a_time(server: ReplayServer) -> None:
    server.create(StreamSpec("many", shards=2500, pages=0, page_records=1))
    many = StreamClient("many", ClientSettings("us-east-1", server.url))
    server.calls()
    shards = many.list_shards()
    assert len(shards) == 2500
    assert covers_all_hash_keys(shards)
    assert server.calls() == {"ListShards": 3}


def test_an_answer_takes_as_long_as_it_was_told_to(server: ReplayServer, client: StreamClient) -> None:
    server.latency(80)
    try:
        began = time.monotonic()
        client.describe()
        assert time.monotonic() - began >= 0.08
    finally:
        server.latency(0)


def test_a_stream_that_throttles_refuses_a_call_too_soon_after_another(server: ReplayServer) -> None:
    server.create(StreamSpec("throttled", shards=1, pages=2, page_records=10, throttled=True))
    throttled = StreamClient("throttled", ClientSettings("us-east-1", server.url), attempts=1)
    iterator = throttled.shard_iterator("shardId-000000000000", TRIM_HORIZON)
    throttled.get_records(iterator, 10)
    with pytest.raises(CallFailed, match="ProvisionedThroughputExceededException"):
        throttled.get_records(iterator, 10)


def measured(work: str) -> Command:
    code = textwrap.dedent(f"""
        import subprocess, sys, time
        from pathlib import Path
        from benchmarks.harness.worker_protocol import Order, Read, take_orders
        def burn(seconds):
            began = time.process_time()
            while time.process_time() - began < seconds: pass
        def do(order):
            {work}
            return Read(order.records, 1000 * order.records)
        take_orders(lambda order: lambda: do(order))
    """)
    return Command("child", [sys.executable, "-c", code])


def test_the_cpu_of_a_childs_own_children_counts_and_its_start_does_not() -> None:
    burn = "import time\\nwhile time.process_time() < 0.5: pass"
    child = measured(f'print("noise"); subprocess.run([sys.executable, "-c", "{burn}"], check=True)')
    given = Input("", "orders", 10, 10_000)
    (of_child,), failed = interleaved([child], given, {"child": given}, rounds=2)
    assert not failed
    for work in of_child.rounds:
        assert 0.45 <= work.usage.cpu < 1.0
        assert work.cpu_per_gb == pytest.approx(work.usage.cpu / 10_000 * 1e9)


def test_a_reader_that_fails_is_named_and_the_others_go_on() -> None:
    fine, broken = measured("pass"), measured("raise SystemExit('no such stream')")
    broken = Command("broken", broken.argv)
    given = Input("", "orders", 10, 10_000)
    of_all, failed = interleaved([broken, fine], given, dict.fromkeys(("child", "broken"), given), rounds=1)
    assert [each.name for each in of_all] == ["child"]
    assert failed == {"broken": "broken ended: no such stream"}


def of_rounds(name: str, *cpu: float) -> Measured:
    """A reader that took so many CPU seconds for a GB in each round."""
    works = [Work(Usage(each, each), Read(10**6, 10**9), 0, frozenset()) for each in cpu]
    return Measured(name, Usage(0, 0), works)


def test_targets_compare_what_was_measured_in_the_same_round() -> None:
    ours = of_rounds(readers.LANDING, 4, 8, 6)
    parts = [of_rounds(readers.BARE_READ, 2, 4, 3), of_rounds(readers.BARE_WRITE, 2, 4, 2)]
    peers = [of_rounds(readers.DISCARD, 28, 40, 30), of_rounds(readers.SPARK, 36, 44, 36)]
    told = targets(Comparison([ours, *parts, *peers], {readers.DLT: "no way there"}, 0.3))
    discard, spark, overhead, dlt = told
    assert discard == Target(Goal.LESS_THAN_DISCARD, "5.00 (5.00 to 7.00)x", met=True)
    assert spark == Target(Goal.LESS_THAN_SPARK, "6.00 (5.50 to 9.00)x", met=False)
    assert overhead == Target(Goal.OVERHEAD, "1.00 (1.00 to 1.20)x", met=True)
    assert (dlt.goal, dlt.met) == (Goal.FASTER_THAN_DLT, None)
    assert "by hand" in dlt.measured


def test_every_module_with_a_section_is_measured_in_full_once() -> None:
    folder = Path(suite.__file__).parent / "sections"
    with_section = {
        path.relative_to(folder).parts[0].removesuffix(".py")
        for path in folder.rglob("*.py")
        if "\ndef section(" in path.read_text()
    }
    assert sorted(suite.modules(full=True)) == sorted(with_section)
    assert suite.modules(full=False) == suite.MODULES == suite.modules(full=True)[: len(suite.MODULES)]


@pytest.mark.parametrize(("full", "command"), [("0", "make bench"), ("1", "make bench FULL=1")])
def test_both_depths_write_one_report_of_what_they_measure(
    full: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(module: str, *, full: bool) -> tuple[Section, bool]:
        return Section(module, f"Full: {full}."), True

    monkeypatch.setattr(suite, "os", SimpleNamespace(environ={"FULL": full}))  # not for other threads
    monkeypatch.setattr(suite, "measured", measured)
    monkeypatch.setattr(suite, "REPORT", tmp_path / "REPORT.md")
    assert suite.main([]) == 0
    head, *sections = suite.REPORT.read_text().split("\n\n## ")
    assert f"`{command}` wrote this" in head
    told = [f"{module}\n\nFull: {full == '1'}." for module in suite.modules(full=full == "1")]
    assert [section.strip() for section in sections] == told


def test_the_report_has_every_goal_whether_it_was_measured_or_not() -> None:
    section = Section("Runs", "Many.", [Target(Goal.SENSOR_TICK, "9.1 s", met=False)])
    report = render([section], machine="a machine", command="make bench", minutes=9.6)
    rows = [line for line in report.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(Goal) + 1  # and the line under the columns' names
    assert f"| {Goal.SENSOR_TICK.what} | 9.1 s | at most 8 s | **no** |" in rows
    assert sum("| not measured |" in row for row in rows) == len(Goal) - 1
    assert "## Runs\n\nMany." in report
