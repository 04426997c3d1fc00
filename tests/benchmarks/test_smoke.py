"""The benchmark suite loads, measures and writes a report."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import __main__ as suite
from benchmarks.replay import replay_server
from benchmarks.replay_pages import StreamSpec
from benchmarks.report import render
from benchmarks.section import Goal, Section, Target
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.settings import ClientSettings

FOLDER = Path(suite.__file__).parent
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("__"))


@pytest.mark.parametrize("module", MODULES)
def test_a_module_loads(module):
    assert import_module(f"benchmarks.{module}")


def test_the_suite_has_every_section_once():
    with_section = {path.stem for path in FOLDER.glob("*.py") if "\ndef section(" in path.read_text()}
    assert sorted(suite.modules(full=True)) == sorted(with_section)


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
