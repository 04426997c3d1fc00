"""The sections of the benchmarks can be measured, here with so little data that the figures mean nothing.

That of the cluster is in tests/deployments/clusters/test_standalone.py, beside the others that need one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.harness.rounds import Input, measure_in_turn
from benchmarks.harness.section import Goal
from benchmarks.sections import commits, continuous, iceberg, imports
from benchmarks.sections.derived import formats, increments, routes, typed, upserts
from benchmarks.sections.derived.workers import OURS, workers
from benchmarks.sections.landing import readers, targets
from benchmarks.sections.landing.comparison import Comparison
from benchmarks.sections.scale import empty_calls, sensor_ticks, small_pages
from benchmarks.servers.replay_streams import StreamSpec
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.settings import ClientSettings

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.servers.replay_client import ReplayServer

pytestmark = pytest.mark.thorough

FEW = StreamSpec("few", shards=8, pages=1, page_records=10)


def test_replay_server_returns_each_record_once(server: ReplayServer) -> None:
    orders = StreamSpec("orders", shards=2, pages=2, page_records=50, record_bytes=600)
    server.create(orders)
    client = StreamClient(orders.name, ClientSettings("us-east-1", server.url))
    numbers = []
    for shard in client.list_shards():
        iterator: str | None = client.shard_iterator(shard.shard_id, Position.parse("TRIM_HORIZON"))
        while iterator is not None:
            page, _ = client.get_records(iterator, 10_000)
            numbers += [record.sequence_number for record in page.records]
            iterator = page.next_shard_iterator if page.millis_behind_latest else None
    assert len(set(numbers)) == len(numbers) == orders.records


def test_landing_is_compared_with_its_bare_parts(server: ReplayServer) -> None:
    server.create(FEW)
    source = Input(server.url, FEW.name, FEW.records, FEW.data_bytes)
    inputs = {command.name: source for command in readers.OURS}
    measured, failed = measure_in_turn(readers.OURS, source, inputs, rounds=1)
    compared = Comparison(measured, failed, server_cpu_per_gb=0.0)
    assert not failed
    assert [target.goal for target in targets(compared) if target.met is not None] == [Goal.OVERHEAD]


def test_ticks_report_each_shard_that_was_committed_without_an_event(server: ReplayServer) -> None:
    ((new, committed, *others),) = sensor_ticks.measure(server, FEW, rounds=1)
    assert (new.runs, committed.runs) == (1, 0)
    assert committed.events == FEW.shards
    assert [(tick.events, tick.runs) for tick in others] == [(0, 0)] * len(others)


def test_small_pages_are_read_with_and_without_pacing(server: ReplayServer) -> None:
    rates = small_pages.measure(server, 4, 1, rounds=1, paced_rounds=1)
    assert [(each.shards, each.paced) for each in rates] == [(4, False), (4, True)]


def test_calls_without_records_are_measured_in_three_ways(server: ReplayServer) -> None:
    measured = empty_calls.measure(server, rounds=1)
    assert measured.keys() == {empty_calls.DIRECT, empty_calls.SESSION, empty_calls.SDK}


def test_costs_of_derived_tables_are_measured_for_small_tables() -> None:
    with workers(peer=False) as running:
        added = increments.measure(running.running[OURS], rounds=1, sizes=(1, 2), file_rows=100)
        decoded = typed.measure(running, records=80, rounds=1)
        routed = routes.measure(running.running[OURS], records=80, rounds=1)
        encoded = formats.measure(running.running[OURS], orders=800, rounds=1)
        upserted = upserts.measure(running, files=2, rounds=1, file_rows=100, count=10)
        both = iceberg.upserts(running.running[OURS], files=2, rounds=1, file_rows=100, count=10)
    assert None not in (added.target().met, routed.target().met, both.target().met)
    assert "5 tables" in routed.describe()
    assert [target.goal for target in encoded.targets() if target.met is not None] == [
        Goal.LINES,
        Goal.DEBEZIUM,
        Goal.DYNAMODB,
        Goal.PROTOBUF,
    ]
    assert "| 100 lines of JSON | 501 |" in encoded.describe()
    assert [each.met for each in (decoded.target("no peer"), *upserted.targets("no peer"))] == [None] * 3
    assert all(OURS in part.describe() for part in (decoded, upserted))


def test_freshness_is_measured_for_a_raw_table_and_a_typed_table_below_it() -> None:
    measured = continuous.measure(1.0, derived=True)
    assert len(measured.derived) == len(measured.seconds) > 0


def test_logs_with_few_and_many_commits_are_compared_in_a_folder_and_a_bucket(tmp_path: Path) -> None:
    rows = commits.measure((1, 12), rounds=1, copies=tmp_path)
    logs = commits.compare(tmp_path, 1, 12, rounds=1)
    assert [row.commits for row in rows] == [1, 12]
    assert [(log.location, log.row.commits) for log in logs[:4]] == [
        (commits.FOLDER, 1),
        (commits.FOLDER, 12),
        (commits.BUCKET, 1),
        (commits.BUCKET, 12),
    ]


def test_imports_of_a_code_location_are_measured() -> None:
    assert all(
        imports.cpu(statement) > 0 for statement in (imports.BUILT, imports.RUN)
    )  # begin as the others


def test_iceberg_tables_are_measured_beside_delta_tables(server: ReplayServer, tmp_path: Path) -> None:
    ratio = iceberg.ratio(iceberg.landings(server, FEW, rounds=1))
    rows = [row for format_ in iceberg.FORMATS for row in iceberg.commits(format_, (2, 70), rounds=1)]
    made = iceberg.commits_of_each(
        str(tmp_path / "raw"), writers=2, commits=4, open_table=iceberg.iceberg_table
    )
    assert [(row.format, row.commits) for row in rows] == [
        ("Delta", 2),
        ("Delta", 70),
        ("Iceberg", 2),
        ("Iceberg", 70),
    ]
    assert all(0 < row.kb <= iceberg.MAX_KB for row in rows)
    assert sum(made) == 4
    targets = [iceberg.landing_target(ratio), iceberg.commit_target(rows), iceberg.fairness_target(made)]
    assert None not in [target.met for target in targets]
