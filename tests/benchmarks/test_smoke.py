"""The benchmark suite loads, measures and writes a report."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import __main__ as suite
from benchmarks.harness.report import render
from benchmarks.harness.section import Goal, Section, Target
from benchmarks.servers.replay_client import replay_server
from benchmarks.servers.replay_streams import StreamSpec
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
def test_a_module_loads(module):
    assert import_module(module)


@pytest.mark.parametrize("section", suite.modules(full=True))
def test_a_section_can_be_measured(section):
    assert callable(import_module(f"benchmarks.sections.{section}").section)


def test_the_stream_to_measure_with_returns_each_record_once():
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


def test_a_section_is_rendered_with_its_targets():
    section = Section("Runs", "Many.", [Target(Goal.SENSOR_TICK, "9.1 s", met=False)])
    report = render([section], machine="a machine", command="make bench", minutes=9.6)
    assert "## Runs\n\nMany." in report
    assert f"| {Goal.SENSOR_TICK.what} | 9.1 s |" in report
