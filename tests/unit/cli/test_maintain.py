"""Output and exit codes of `kinesis-assets maintain`."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.commits.commit import freeze
from kinesis_assets.table.maintenance.steps import DEFAULT_LIMITS
from kinesis_assets.table.positions.amendments import FORMAT, Amendment
from support.formats import derived_iceberg, derived_settings_in
from support.mentions import assert_mentions
from support.plain_derived import PlainDerived

COLUMNS = ["stream", "asset", "step", "of", "state", "rows", "files", "bytes", "reason"]


@pytest.fixture
def empty_table(kinesis, stream, settings, table):
    """A stream and its table without rows."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    listing = StreamClient(stream, settings).listing()
    starts = {shard.shard_id: Position(PositionKind.TRIM_HORIZON) for shard in listing.shards}
    freeze(table, listing, starts)
    return listing.summary.identity


@pytest.mark.slow
def test_json_output_has_one_object_per_step(cli, stream_options, stream, empty_table, table):
    done = cli("maintain", *stream_options, "--retention-days", "30", "--json")
    assert done.exit_code == 0, done.err
    assert [list(line) for line in done.lines] == [COLUMNS] * 2
    floor = table.snapshot().amendment(empty_table).floor
    assert [(line["step"], line["of"], line["state"]) for line in done.lines] == [
        ("expire", f"before {floor}", "done"),
        ("checkpoint", "_delta_log", "done"),
    ]
    assert {line["stream"] for line in done.lines} == {stream}


@pytest.mark.slow
@pytest.mark.usefixtures("empty_table")
def test_default_output_is_a_table_with_a_header(cli, stream_options):
    header, row = (line.split() for line in cli("maintain", *stream_options).out.splitlines())
    assert header == COLUMNS[1:]
    assert row[1:4] == ["checkpoint", "_delta_log", "done"]


@pytest.mark.usefixtures("empty_table")
@pytest.mark.slow
def test_a_dry_run_without_a_step_says_so(cli, stream_options):
    done = cli("maintain", *stream_options, "--dry-run")
    assert (done.exit_code, done.out, len(done.err.splitlines())) == (0, "", 1)


@pytest.mark.slow
def test_a_dry_run_prints_the_steps_and_changes_nothing(cli, stream_options, empty_table, table):
    done = cli("maintain", *stream_options, "--retention-days", "30", "--dry-run", "--json")
    assert done.exit_code == 0
    assert [(line["step"], line["state"]) for line in done.lines] == [("expire", "planned")]
    assert table.snapshot().amendment(empty_table) is None


def test_a_missing_table_is_reported_and_not_created(cli, stream_options, kinesis, stream, tmp_path):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    done = cli("maintain", *stream_options)
    assert done.exit_code == 1
    (line,) = done.err.splitlines()
    assert str(tmp_path / "table") in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("days", ["0", "-1", "many"])
def test_an_invalid_number_of_days_is_bad_input(cli, stream_options, days):
    assert cli("maintain", *stream_options, "--retention-days", days).exit_code == 2


def test_the_retention_of_a_stream_with_a_yaml_is_refused_as_an_option(cli):
    done = cli("maintain", "--stream", "orders", "--retention-days", "30")
    assert done.exit_code == 2
    assert_mentions(done.err, "--retention-days", "--table")


# Derived tables


@pytest.fixture
def derived(kinesis, stream, tmp_path):
    """A derived table at the place that `stream_options` name, with enough small files."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    derived = PlainDerived(tmp_path / "table", partitioned=False)
    for number in range(DEFAULT_LIMITS.small_files):
        derived.append((number, number, None))
    return derived


def test_a_derived_table_that_is_given_is_maintained(cli, stream_options, derived):
    done = cli("maintain", *stream_options, "--json")
    assert done.exit_code == 0, done.err
    assert [list(line) for line in done.lines] == [COLUMNS] * 2
    assert [(line["asset"], line["step"], line["state"]) for line in done.lines] == [
        (None, "compact", "done"),
        (None, "checkpoint", "done"),
    ]
    assert len(derived.active) == 1


def test_a_dry_run_only_plans_the_steps_of_a_derived_table(cli, stream_options, derived):
    active = derived.active
    done = cli("maintain", *stream_options, "--dry-run", "--json")
    assert [(line["step"], line["state"]) for line in done.lines] == [("compact", "planned")]
    assert derived.active == active


@pytest.mark.slow
def test_a_derived_iceberg_table_that_is_given_with_its_catalog_is_maintained(
    cli, stream_options, kinesis, stream, tmp_path
):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    format_ = derived_iceberg(str(tmp_path / "table"))
    derived = PlainDerived(tmp_path / "table", format=format_)
    for number in range(DEFAULT_LIMITS.small_files):
        derived.append((number, number, None))
    rows, settings = derived.rows, derived_settings_in(format_)
    catalog = ["--set", "format=iceberg", "--set", f"catalog={json.dumps(settings['catalog'])}"]
    done = cli("maintain", *stream_options, *catalog, "--json")
    assert done.exit_code == 0, done.err
    assert [(line["asset"], line["step"], line["state"]) for line in done.lines] == [
        (None, "compact", "done")
    ]
    assert (len(derived.active), derived.rows) == (1, rows)


@pytest.mark.parametrize("option", [["--retention-days", "30"], ["--set", "retention_days=30"]])
def test_the_retention_of_a_derived_table_is_refused(cli, stream_options, derived, option):
    active = derived.active
    done = cli("maintain", *stream_options, *option)
    assert done.exit_code == 2
    assert_mentions(done.err, "--retention-days", derived.table.uri)
    assert derived.active == active


def test_a_table_that_is_neither_raw_nor_derived_is_refused(cli, stream_options, kinesis, stream, tmp_path):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    write_deltalake(str(tmp_path / "table"), pa.table({"key": [1]}))
    done = cli("maintain", *stream_options)
    assert done.exit_code == 1
    assert_mentions(done.err, tmp_path / "table", "stream, shard_id")


# Operations by hand


def raise_floor(table, identity, floor):
    entry = Amendment(
        format=FORMAT, commit_id=new_id(), previous=None, batch_id=1, at=datetime.now(UTC), floor=floor
    )
    table.snapshot().commit([], identity=identity, amendment=entry)


def test_lowering_the_floor_does_nothing_else(cli, stream_options, empty_table, table):
    raise_floor(table, empty_table, date(2027, 1, 31))
    done = cli("maintain", *stream_options, "--lower-floor", "2026-01-31", "--by", "ada", "--json")
    assert done.exit_code == 0, done.err
    (step,) = done.lines
    assert list(step) == COLUMNS
    assert (step["step"], step["of"]) == ("lower floor", "from 2027-01-31 to 2026-01-31")
    amendment = table.snapshot().amendment(empty_table)
    assert (amendment.floor, amendment.by) == (date(2026, 1, 31), "ada")
    assert done.err == ""


def test_retention_that_would_raise_the_floor_again_is_reported(cli, stream_options, empty_table, table):
    raise_floor(table, empty_table, date(2027, 1, 31))
    done = cli("maintain", *stream_options, "--retention-days", "30", "--lower-floor", "2020-01-31")
    assert done.exit_code == 0, done.err
    assert_mentions(done.err, "retention_days", "30", "floor again")


def test_a_dry_run_by_hand_changes_nothing(cli, stream_options, empty_table, table):
    raise_floor(table, empty_table, date(2027, 1, 31))
    version = table.snapshot().delta.version()
    options = ["--lower-floor", "2026-01-31", "--set-property", "delta.checkpointInterval=50"]
    done = cli("maintain", *stream_options, *options, "--dry-run", "--json")
    assert [(line["step"], line["state"]) for line in done.lines] == [
        ("set properties", "planned"),
        ("lower floor", "planned"),
    ]
    assert table.snapshot().delta.version() == version


@pytest.mark.usefixtures("empty_table")
def test_properties_are_set_by_one_commit(cli, stream_options, table):
    version = table.snapshot().delta.version()
    wanted = {"delta.logRetentionDuration": "interval 7 days", "delta.checkpointInterval": "50"}
    options = [part for name, value in wanted.items() for part in ("--set-property", f"{name}={value}")]
    done = cli("maintain", *stream_options, *options, "--json")
    assert [(line["step"], line["state"]) for line in done.lines] == [("set properties", "done")]
    delta = table.snapshot().delta
    assert delta.version() == version + 1
    assert wanted.items() <= delta.metadata().configuration.items()


@pytest.mark.parametrize(
    "options",
    [
        ["--lower-floor", "yesterday"],
        ["--lower-floor", "2026-01-31"],
        ["--set-property", "delta.appendOnly=true"],
        ["--set-property", "delta.appendOnly"],
    ],
)
@pytest.mark.usefixtures("empty_table")
def test_invalid_operations_by_hand_are_bad_input(cli, stream_options, options):
    assert cli("maintain", *stream_options, *options).exit_code == 2


@pytest.mark.slow
def test_a_wrong_clock_deletes_nothing_and_is_reported(cli, stream, clocked, table, tmp_path):
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)
    clocked.clock.advance(365 * 24 * 3600)
    listing = StreamClient(stream, clocked.settings).listing()
    freeze(table, listing, {each.shard_id: Position(PositionKind.TRIM_HORIZON) for each in listing.shards})
    place = ["--table", str(tmp_path / "table"), "--endpoint-url", str(clocked.settings.endpoint_url)]
    done = cli("maintain", "--stream", stream, *place, "--retention-days", "90")
    assert done.exit_code == 1
    *_, line = done.err.splitlines()
    assert_mentions(line, "clock", f"{listing.summary.service_time:%Y-%m-%dT%H:%M}")
    assert table.snapshot().amendment(listing.summary.identity) is None
