"""Dagster's storage in PostgreSQL, on a server that the test starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest
import sqlalchemy
import yaml

import kinesis_assets
from benchmarks.servers.postgresql import storage_on
from kinesis_assets.dagster.dagster_internals import report_events
from kinesis_assets.dagster.partition_ranges import range_tags
from support.postgresql import postgresql
from support.stream_names import raw_key

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(kinesis_assets.__file__).parents[1]


@pytest.fixture
def postgres_port() -> Iterator[int]:
    """The port of a server on loopback."""
    with postgresql() as port:
        yield port


def with_postgres_storage(text: str, port: int) -> str:
    """Return dagster.yaml with its storage block uncommented."""
    before, mark, rest = text.partition("# storage:\n")
    block, gap, after = rest.partition("\n\n")
    lines = [mark, *(line + "\n" for line in block.splitlines())]
    return (
        before + "".join(line.removeprefix("# ") for line in lines).replace("5432", str(port)) + gap + after
    )


@pytest.mark.usefixtures("spark")
def test_a_run_is_recorded_in_postgresql(postgres_port, cli, stream_options, source, tmp_path, monkeypatch):
    content = with_postgres_storage((PROJECT / "dagster.yaml").read_text(), postgres_port)
    assert "postgres_db" in yaml.safe_load(content)["storage"]["postgres"]
    (tmp_path / "dagster.yaml").write_text(content)
    for name, value in {"HOST": "127.0.0.1", "USER": "dagster", "PASSWORD": "-", "DB": "postgres"}.items():
        monkeypatch.setenv(f"DAGSTER_POSTGRES_{name}", value)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    source.create(2)
    assert cli("run", *stream_options).exit_code == 0
    with dg.DagsterInstance.get() as instance:
        assert type(instance.run_storage).__name__ == "PostgresRunStorage"
        assert [run.status for run in instance.get_runs()] == [dg.DagsterRunStatus.SUCCESS]
        assert len(instance.get_materialized_partitions(raw_key(source.name))) == 2


def test_the_events_of_many_shards_are_stored_by_one_statement_for_each_type(postgres_port, tmp_path):
    shards = [f"shard-{number:02}" for number in range(20)]
    failed = shards[5]
    statements: list[str] = []

    def note(_connection, _cursor, statement, *_) -> None:
        statements.append(statement)

    @dg.asset(output_required=False, partitions_def=dg.StaticPartitionsDefinition(shards))
    def letters(context):
        events = [
            (dg.AssetObservation if shard == failed else dg.AssetMaterialization)(
                letters.key, partition=shard
            )
            for shard in shards
        ]
        sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", note)
        try:
            report_events(context.get_step_execution_context(), events)
        finally:
            sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", note)
        yield from ()

    (tmp_path / "dagster.yaml").write_text(storage_on(postgres_port))
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        dg.materialize([letters], instance=instance, tags=range_tags(shards))
        assert instance.get_materialized_partitions(letters.key) == {*shards} - {failed}
        observed = instance.fetch_observations(letters.key, limit=10).records
        assert len(observed) == 1
        records = [*observed, *instance.fetch_materializations(letters.key, limit=100).records]
        assert len({int(record.timestamp * 1000) for record in records}) == len(shards)
    assert sum(statement.startswith("INSERT INTO event_logs") for statement in statements) == 2
