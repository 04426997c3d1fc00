"""docs/recovery.md agrees with the code, and its commands run."""

from __future__ import annotations

import inspect
import os
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kinesis_assets import build_kinesis_stream
from kinesis_assets.cli.command_line import commands
from kinesis_assets.errors import PositionsMissing, TableOfAnotherStream, TableRewritten, TableUnsuitable
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.maintenance.steps import State
from kinesis_assets.table.ownership import OWNER
from kinesis_assets.table.policy import VACUUM_RETENTION
from kinesis_assets.table.raw_table import PositionedTable
from support.attempts import (
    Attempt,
    assert_rows_are_what_positions_say,
    current_positions,
    current_summary,
    freeze_all,
    rows_by_shard,
    shards,
)
from support.formats import iceberg_of, table_of
from support.iceberg.foreign import restore_catalog
from support.timing import WRITING

PAGE = (Path(__file__).parents[2] / "docs" / "recovery.md").read_text()
COMMANDS = [block.splitlines() for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]
PYTHON = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
RUN = "kinesis-assets run --stream clicks --table ./clicks"


@pytest.fixture
def clicks(kinesis, settings, tmp_path, monkeypatch, spark):
    """A Spark session, with the page's stream and its table of three records in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", settings.endpoint_url)
    kinesis.create_stream(StreamName="clicks", ShardCount=1)
    for item in range(3):
        kinesis.put_record(StreamName="clicks", Data=b"%d" % item, PartitionKey="k")
    call(RUN)
    yield spark
    kinesis.delete_stream(StreamName="clicks")


def call(line):
    """Run a command, and return its exit code."""
    name, *arguments = shlex.split(line)
    assert name == "kinesis-assets"
    try:
        commands(arguments, standalone_mode=False)
    except SystemExit as ended:
        return ended.code
    return 0


@pytest.mark.usefixtures("clicks")
def test_the_commands_recover_a_restored_table():
    *others, restored, _ = COMMANDS
    lines = [line for block in others for line in block]
    assert [line.split()[1] for line in lines] == ["doctor", "doctor", "replay", "replay"]
    assert [call(line) for line in lines] == [0, 0, 0, 0]
    DeltaTable("clicks").restore(0)
    with pytest.raises(TableRewritten):
        call(RUN)
    assert [line.split()[1] for line in restored] == ["replay", "doctor", "adopt", "adopt"]
    assert [call(line) for line in restored] == [0, 0, 0, 0]
    assert call(RUN) == 0


@pytest.mark.usefixtures("clicks")
def test_the_steps_recover_a_lost_data_file():
    (file,) = Path("clicks").glob("arrival_date=*/*.parquet")
    file.unlink()
    assert call("kinesis-assets doctor --stream clicks --table ./clicks --dry-run") == 1
    exec(PYTHON[0], {})  # noqa: S102
    *_, (find, replay) = COMMANDS
    assert call(find) == 1
    assert call(replay) == 0
    assert call(find) == 0


def test_the_documented_names_exist():
    assert f"`{OWNER}`" in PAGE
    for error in (TableRewritten, PositionsMissing, TableOfAnotherStream):
        assert f"`{error.__name__}`" in PAGE
    assert re.findall(r"^\| `([a-z]+)` \|", PAGE, re.MULTILINE) == ["adopted", "unread", "gone"]


def test_the_documented_sql_returns_the_checksums_of_the_commits(clicks, tmp_path):
    (sql,) = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    snapshot = PositionedTable("clicks").snapshot()
    written = (tmp_path / "clicks" / "_kinesis" / "positions").glob("*.json")
    found = [snapshot.table.chain.positions_at(int(path.stem)) for path in written]
    (landed,) = (each for each in found if each.added)
    files = [str(path) for path in (tmp_path / "clicks").glob("arrival_date=*/*.parquet")]
    clicks.read.parquet(*files).createOrReplaceTempView("clicks")
    try:
        rows = clicks.sql(re.sub(r"batch_id = \d+", f"batch_id = {landed.batch_id}", sql)).collect()
    finally:
        clicks.catalog.dropTempView("clicks")
    committed = {shard: (facts.rows, facts.checksum) for shard, facts in landed.added.items()}
    assert {row[0]: (row[1], row[2]) for row in rows} == committed


def test_the_systemd_timeout_exceeds_the_stop_timeout():
    (seconds,) = re.findall(r"^KillMode=mixed\nTimeoutStopSec=(\d+)$", PAGE, re.MULTILINE)
    assert int(seconds) > inspect.signature(build_kinesis_stream).parameters["stop_timeout"].default


def test_the_python_recovers_from_a_restored_catalog(tmp_path):
    table = table_of("iceberg", str(tmp_path / "clicks"), WRITING)
    freeze_all(table, shards("a"))

    def commit_more():
        Attempt(table, current_positions(table), {"a": 1}).commit()

    def vacuum():
        for path in Path(table.uri).rglob("*.*"):
            time = path.stat().st_mtime - 2 * VACUUM_RETENTION.total_seconds()
            os.utime(path, (time, time))
        return [step for step in maintain(table, current_summary()) if step.step == "vacuum"]

    for _ in range(3):
        commit_more()
    newest, rows = iceberg_of(table), rows_by_shard(table)
    restore_catalog(newest, 2)
    for _ in range(2):
        commit_more()
    with pytest.raises(TableUnsuitable, match="commits that its catalog does not know"):
        vacuum()
    names = {
        "lake.clicks_raw": ".".join(newest.name()),
        "s3://my-lake/raw/clicks/metadata/04711-....metadata.json": newest.metadata_location,
        "2026-01-31T12:00:00Z": datetime.now(UTC).isoformat(),
    }

    def run(code):
        code = re.sub("|".join(map(re.escape, names)), lambda found: names[found[0]], code)
        exec(code, {"catalog": newest.catalog})  # noqa: S102

    _, register, give_up = PYTHON
    run(register)
    assert rows_by_shard(table) == rows
    with pytest.raises(TableUnsuitable, match="to the present time"):
        vacuum()
    run(give_up)
    assert [step.state for step in vacuum()] == [State.DONE]
    assert_rows_are_what_positions_say(table)
