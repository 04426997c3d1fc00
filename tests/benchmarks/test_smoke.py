"""The benchmarks can be imported, and write a report."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import __main__ as suite
from benchmarks.harness import report
from benchmarks.harness.charts import growth_chart
from benchmarks.harness.paths import BENCHMARKS, LAST_RUN
from benchmarks.harness.section import Goal, Section, Target
from benchmarks.sections import cluster, continuous
from benchmarks.sections.derived import increments, typed, upserts
from benchmarks.sections.derived.workers import OURS, workers
from benchmarks.servers.replay_client import replay_server
from benchmarks.servers.replay_streams import StreamSpec
from benchmarks.servers.standalone_cluster import standalone_cluster
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.settings import ClientSettings

FOLDER = Path(suite.__file__).parent
MODULES = [
    ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts)
    for path in sorted(FOLDER.rglob("*.py"))
    if "peers" not in path.parts and not path.stem.startswith("__")
]


@pytest.mark.parametrize("module", MODULES)
def test_module_can_be_imported(module):
    assert import_module(module)


@pytest.mark.parametrize("section", suite.modules(full=True))
def test_section_can_be_measured(section):
    assert callable(import_module(f"benchmarks.sections.{section}").section)


def test_replay_server_returns_each_record_once():
    orders = StreamSpec("orders", shards=2, pages=2, page_records=50, record_bytes=600)
    numbers = []
    with replay_server() as server:
        server.create(orders)
        client = StreamClient(orders.name, ClientSettings("us-east-1", server.url))
        for shard in client.list_shards():
            iterator = client.shard_iterator(shard.shard_id, Position.parse("TRIM_HORIZON"))
            while iterator is not None:
                page, _ = client.get_records(iterator, 10_000)
                numbers += [record.sequence_number for record in page.records]
                iterator = page.next_shard_iterator if page.millis_behind_latest else None
    assert len(set(numbers)) == len(numbers) == orders.records


def test_costs_of_derived_tables_are_measured_for_small_tables():
    with workers(peer=False) as running:
        added = increments.measure(running.running[OURS], rounds=1, sizes=(1, 2), file_rows=100)
        decoded = typed.measure(running, records=80, rounds=1)
        upserted = upserts.measure(running, files=2, rounds=1, file_rows=100, count=10)
    assert added.target().met is not None
    assert [each.met for each in (decoded.target("no peer"), *upserted.targets("no peer"))] == [None] * 3
    assert all(OURS in part.describe() for part in (decoded, upserted))


def test_freshness_is_measured_for_a_raw_table_and_a_typed_table_below_it():
    measured = continuous.measure(1.0, derived=True)
    assert len(measured.derived) == len(measured.seconds) > 0


def test_landings_on_a_cluster_are_measured_beside_those_of_a_local_session():
    few = StreamSpec("few", shards=2, pages=1, page_records=10)
    with replay_server() as server, standalone_cluster() as running:
        landings = [cluster.measure_landings(server, running, cluster.EXECUTORS, few, rounds=1)]
    assert cluster.target(landings).met is not None
    assert "| 2 | cluster |" in cluster.describe_landings(landings)


def test_report_contains_sections_with_their_targets_and_charts(tmp_path):
    chart, _ = growth_chart("growth", "Growth", "x", "y", {"curve": [(1, 1), (2, 2)]})
    section = Section("Runs", "Many.", [Target(Goal.SENSOR_TICK, "9.1 s", met=False)], [chart])
    path = report.write(tmp_path / "new", [section], report.About("make bench", "Scope.", "a machine", 9.6))
    text = path.read_text()
    assert "## Runs\n\nMany." in text
    assert f"| {Goal.SENSOR_TICK.description} | 9.1 s |" in text
    assert "![Growth](charts/growth.png)" in text
    assert (path.parent / "charts" / "growth.png").exists()


def test_only_a_complete_run_replaces_the_committed_report():
    assert suite.report_folder([], full=True) == BENCHMARKS
    assert suite.report_folder([], full=False) == suite.report_folder(["landing"], full=True) == LAST_RUN
    assert BENCHMARKS not in LAST_RUN.parents
