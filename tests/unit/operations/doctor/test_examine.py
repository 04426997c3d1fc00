"""Findings about a table and its stream as a whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kinesis_assets.operations.doctor.examine import examine
from kinesis_assets.operations.doctor.finding import Level
from kinesis_assets.table.ownership import OWNER
from kinesis_assets.table.positions.positions_chain import positions_path
from support.doctor_bench import DoctorBench
from support.token_service import CALLER


def test_a_healthy_table_has_no_problem(ingested, instance):
    ingested.findings(instance=instance, add_events=True)
    assert ingested.levels(instance=instance) == {
        check: {"ok"}
        for check in (
            "table",
            "positions",
            "stream",
            "shards",
            "continuity",
            "log",
            "restore",
            "runs",
            "events",
            "files",
        )
    }


def test_the_role_that_accesses_the_table_is_named(ingested, role):
    ingested.settings = replace(ingested.settings, role=role)
    (first, *_) = examine(ingested.client, ingested.table)
    assert (first.check, first.level) == ("role", Level.OK)
    assert CALLER in first.sentence


def test_a_missing_table_is_reported(bench):
    bench.create()
    ((check, _, sentence),) = bench.problems()
    assert check == "table"
    assert "first run" in sentence


def test_a_missing_stream_is_reported(bench):
    ((check, _, sentence),) = bench.problems()
    assert check == "stream"
    assert "not found" in sentence


def test_a_stream_before_its_first_run_is_not_a_problem(bench):
    bench.create()
    bench.table.create_if_missing()
    assert bench.levels() == {"table": {"ok"}, "positions": {"info"}}


def test_unreadable_positions_are_reported(ingested):
    path = positions_path(ingested.positions.commit_id)
    Path(ingested.table.uri, path).write_text("{")
    ((check, _, sentence),) = ingested.problems()
    assert check == "table"
    assert path in sentence


def test_a_recreated_stream_is_reported(clocked, stream, table):
    bench = DoctorBench(clocked.kinesis, clocked.settings, stream, table, clocked.clock)
    bench.ingest()
    bench.delete()
    bench.later(seconds=1)  # creation times are whole seconds
    bench.create()
    assert [check for check, _, _ in bench.problems()] == ["stream"]


def test_a_table_of_another_stream_is_a_problem_with_both_arns(ingested):
    ours = ingested.client.describe().identity.arn
    other = ours.replace("us-east-1", "eu-west-1")
    ingested.delta.alter.set_table_properties({OWNER: other}, raise_if_not_exists=False)
    ((check, _, sentence),) = ingested.problems()
    assert check == "table"
    assert ours in sentence
    assert other in sentence
