"""Open shards that are recorded as finished: a seek reopens them at their position."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from kinesis_assets.cli.command_line import commands
from kinesis_assets.errors import DataLost, SeekRefused, ShardListStale
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.operations.seek.plan import Direction
from support.dagster_components import dagsters_own_warnings
from support.formats import FORMATS, settings_of, table_of
from support.timing import WRITING

pytestmark = pytest.mark.slow


def finish_by_mistake(bench, *shard_ids):
    """Record shards as read to their end, as a version that trusts a single response might."""
    bench.forge_shards(*shard_ids, finished=True)


def command_of(error):
    (command,) = re.findall(r"`kinesis-assets (seek [^`]+)`", str(error))
    return shlex.split(command)


@pytest.mark.parametrize("start", ["TRIM_HORIZON", "LATEST"])
@pytest.mark.parametrize("records", [0, 3])
def test_the_command_in_the_error_reopens_the_shard_without_loss(bench, start, records):
    (shard_id,) = bench.create()
    bench.plan(start=start)
    if records:
        bench.put(*range(records))
        bench.run()
    before = bench.at(shard_id)
    finish_by_mistake(bench, shard_id)
    bench.put(10)
    with pytest.raises(ShardListStale) as caught:
        bench.run([shard_id])
    place = ["--table", bench.table.uri, "--endpoint-url", bench.settings.endpoint_url]
    commands([*command_of(caught.value), *place], standalone_mode=False)
    after = bench.at(shard_id)
    assert (after.finished, after.position, len(after.seeks)) == (False, before.position, 1)
    assert bench.run().errors == {}
    assert bench.items == [*range(records), 10]


@dagsters_own_warnings
@pytest.mark.parametrize("format_", FORMATS)
def test_the_command_in_the_error_works_in_the_project_of_the_stream(bench, tmp_path, monkeypatch, format_):
    bench.table = table_of(format_, str(tmp_path / "table"), WRITING)
    (shard_id,) = bench.create()
    bench.put(1)
    bench.run()
    finish_by_mistake(bench, shard_id)
    with pytest.raises(ShardListStale) as caught:
        bench.run([shard_id])
    attributes = {"stream": bench.stream, "table": bench.table.uri, **settings_of(bench.table)}
    attributes["endpoint_url"] = bench.settings.endpoint_url
    module = f"lake_{format_}"
    folder = tmp_path / module / "defs" / "stream"
    folder.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(f'[tool.dg.project]\nroot_module = "{module}"\n')
    component = {"type": "kinesis_assets.KinesisStreamComponent", "attributes": attributes}
    (folder / "defs.yaml").write_text(json.dumps(component))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(folder)
    commands(command_of(caught.value), standalone_mode=False)
    assert not bench.at(shard_id).finished


def test_reopening_is_reported_and_deletes_no_rows(bench):
    (shard_id,) = bench.create()
    (number,) = bench.put(1)
    bench.run()
    finish_by_mistake(bench, shard_id)
    move = bench.seek(f"AFTER_SEQUENCE_NUMBER:{number}", shard_id).moves[shard_id]
    assert (move.direction, move.rows_removed, move.gap) == (Direction.REOPEN, 0, None)
    assert bench.items == [1]


def test_two_shards_can_be_reopened_one_after_the_other(bench):
    first, second = bench.create(2)
    numbers = {
        shard_id: bench.put(shard_id[-1].encode(), shard_id=shard_id)[0] for shard_id in (first, second)
    }
    bench.run()
    finish_by_mistake(bench, first, second)
    for shard_id in (first, second):
        bench.seek(f"AFTER_SEQUENCE_NUMBER:{numbers[shard_id]}", shard_id)
    assert bench.positions.finished == set()
    assert bench.run().errors == {}


def test_a_move_forward_reopens_an_open_shard_and_records_the_gap(bench):
    (shard_id,) = bench.create()
    bench.put(1)
    bench.run()
    finish_by_mistake(bench, shard_id)
    bench.later(seconds=5)
    _, last = bench.put(2, 3)
    bench.seek(f"AT_SEQUENCE_NUMBER:{last}", shard_id)
    after = bench.at(shard_id)
    assert (after.finished, len(after.gaps)) == (False, 1)
    assert after.position == Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=last)
    bench.run()
    assert bench.items == [1, 3]


def test_a_move_back_reopens_an_open_shard(bench):
    (shard_id,) = bench.create()
    first, _ = bench.put(1, 2)
    bench.run()
    finish_by_mistake(bench, shard_id)
    assert bench.seek(f"AFTER_SEQUENCE_NUMBER:{first}", shard_id).moves[shard_id].rows_removed == 1
    bench.run()
    assert bench.items == [1, 2]


def test_loss_since_the_mistaken_end_is_reported_after_reopening(bench):
    (shard_id,) = bench.create()
    (number,) = bench.put(1)
    bench.run()
    finish_by_mistake(bench, shard_id)
    bench.put(2)
    bench.later(hours=30)
    bench.put(3)
    bench.seek(f"AFTER_SEQUENCE_NUMBER:{number}", shard_id)
    assert isinstance(bench.run().errors[shard_id], DataLost)


def test_a_closed_shard_is_not_reopened(bench):
    (parent,) = bench.create()
    (number,) = bench.put(1)
    bench.split(parent)
    bench.run()
    result = bench.seek(f"AFTER_SEQUENCE_NUMBER:{number}", parent)
    assert (result.moves[parent].direction, result.applied) == (Direction.STAYS, False)
    bench.later(seconds=5)
    with pytest.raises(SeekRefused, match="finished"):
        bench.seek("LATEST", parent)
    assert bench.at(parent).finished


def test_a_stale_list_reopens_no_shard(bench, faults):
    (parent,) = bench.create()
    (number,) = bench.put(1)
    bench.run()
    bench.split(parent)
    bench.run()
    before = bench.version
    faults.stale_list()
    with pytest.raises(ShardListStale, match=parent):
        bench.seek(f"AFTER_SEQUENCE_NUMBER:{number}", parent)
    faults.clear()
    assert (bench.version, bench.at(parent).finished) == (before, True)


@pytest.mark.parametrize("hours", [1, 8760])
def test_a_seek_does_not_store_one_incorrect_retention(bench, faults, hours):
    first, second = bench.create(2)
    bench.put(1, shard_id=first)
    bench.run()
    bench.later(seconds=5)
    faults.answer(
        "DescribeStreamSummary",
        lambda _, response: response.but(
            StreamDescriptionSummary=response.members["StreamDescriptionSummary"]
            | {"RetentionPeriodHours": hours}
        ),
        times=1,
    )
    bench.seek("LATEST", first)
    faults.clear()
    assert [bench.at(shard_id).retention_hours for shard_id in (first, second)] == [24, 24]
