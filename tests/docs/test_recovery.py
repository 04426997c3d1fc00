"""docs/recovery.md agrees with the code, and its commands run."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kinesis_assets import build_kinesis_stream
from kinesis_assets.cli.command_line import commands
from kinesis_assets.errors import PositionsMissing, TableOfAnotherStream, TableRewritten
from kinesis_assets.table.ownership import OWNER
from kinesis_assets.table.table import PositionedTable

PAGE = (Path(__file__).parents[2] / "docs" / "recovery.md").read_text()
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
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    *others, restored = [block.splitlines() for block in blocks]
    lines = [line for block in others for line in block]
    assert [line.split()[1] for line in lines] == ["doctor", "doctor", "replay", "replay"]
    assert [call(line) for line in lines] == [0, 0, 0, 0]
    DeltaTable("clicks").restore(0)
    with pytest.raises(TableRewritten):
        call(RUN)
    assert [line.split()[1] for line in restored] == ["replay", "doctor", "adopt", "adopt"]
    assert [call(line) for line in restored] == [0, 0, 0, 0]
    assert call(RUN) == 0


def test_the_documented_names_exist():
    assert f"`{OWNER}`" in PAGE
    for error in (TableRewritten, PositionsMissing, TableOfAnotherStream):
        assert f"`{error.__name__}`" in PAGE
    assert re.findall(r"^\| `([a-z]+)` \|", PAGE, re.MULTILINE) == ["adopted", "unread", "gone"]


def test_the_documented_sql_returns_the_checksums_of_the_commits(clicks, tmp_path):
    (sql,) = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    snapshot = PositionedTable("clicks").snapshot()
    written = (tmp_path / "clicks" / "_kinesis" / "positions").glob("*.json")
    found = [snapshot.positions_at(int(path.stem)) for path in written]
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
