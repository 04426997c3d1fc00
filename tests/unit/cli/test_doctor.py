"""Output and exit codes of `kinesis-assets doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.client import StreamClient
from support.command_line import single_line_error
from support.stream_names import raw_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.table.raw_table import PositionedTable
    from support.command_line import RunCommand

A = "shardId-000000000000"
CHECKS = ["table", "positions", "stream", "shards", "continuity", "log", "restore", "events", "files"]


@pytest.fixture
def unreported(kinesis: Any, stream: str, settings, table: PositionedTable) -> PositionedTable:
    """A table with ten records without events."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    entries = [{"Data": b"%d" % number, "PartitionKey": "k"} for number in range(10)]
    kinesis.put_records(StreamName=stream, Records=entries)
    client = StreamClient(stream, settings)
    execute_run(land_group, client, table, plan_run(client, table, asked=[A], policy=ReadPolicy()))
    return table


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """The instance of DAGSTER_HOME."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with dg.DagsterInstance.get() as instance:
        yield instance


@pytest.mark.usefixtures("unreported")
def test_a_healthy_table_exits_0_with_a_line_for_each_check(cli: RunCommand, stream_options, stream):
    done = cli("doctor", *stream_options, "--json")
    assert done.exit_code == 0
    assert [line["check"] for line in done.lines] == CHECKS
    assert {line["level"] for line in done.lines if line["check"] != "events"} == {"ok"}
    assert all(list(line) == ["stream", "check", "shard", "level", "sentence"] for line in done.lines)
    assert {line["stream"] for line in done.lines} == {stream}


@pytest.mark.usefixtures("unreported")
def test_events_are_not_checked_without_dagster_home(cli: RunCommand, stream_options):
    (line,) = (line for line in cli("doctor", *stream_options, "--json").lines if line["check"] == "events")
    assert line["level"] == "info"
    assert "DAGSTER_HOME" in line["sentence"]


@pytest.mark.slow
@pytest.mark.usefixtures("unreported")
def test_missing_events_are_added_unless_it_is_a_dry_run(cli: RunCommand, stream_options, stream, instance):
    def events() -> int:
        return len(instance.fetch_materializations(raw_key(stream), limit=10).records)

    dry = cli("doctor", *stream_options, "--dry-run")
    assert (dry.exit_code, events()) == (1, 0)
    assert "10 rows" in dry.out

    assert cli("doctor", *stream_options).exit_code == 0
    assert cli("doctor", *stream_options, "--dry-run").exit_code == 0
    assert events() == 2  # and the totals of the stream


@pytest.mark.slow
@pytest.mark.usefixtures("unreported")
def test_the_latest_event_is_that_of_the_stream_after_events_were_added(
    cli: RunCommand, stream_options, stream, instance
):
    assert cli("doctor", *stream_options).exit_code == 0
    (record,) = instance.fetch_materializations(raw_key(stream), limit=1).records
    facts = {name: value.value for name, value in record.asset_materialization.metadata.items()}
    assert record.partition_key is None
    assert (facts["open shards"], facts["dagster/row_count"]) == (1, 10)


@pytest.mark.usefixtures("unreported")
def test_findings_before_an_error_are_printed(cli: RunCommand, stream_options, table: PositionedTable):
    (file,) = Path(table.uri).glob("arrival_date=*/*.parquet")
    file.unlink()
    done = cli("doctor", *stream_options, "--rows", "--json")  # no Java
    assert done.exit_code == 1
    assert "JAVA_HOME" in single_line_error(done.err)
    assert [line["check"] for line in done.lines] == CHECKS[: CHECKS.index("restore")]


def test_a_problem_is_one_line_in_the_default_output(cli: RunCommand, stream_options, kinesis, stream):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    done = cli("doctor", *stream_options)
    assert done.exit_code == 1
    header, line = done.out.splitlines()
    assert header.split() == ["check", "shard", "level", "sentence"]
    assert line.split()[:3] == ["table", "-", "problem"]
