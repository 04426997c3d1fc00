"""`kinesis-assets plan`: what the next run would do, without doing it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from support.mentions import assert_mentions
from support.shard_ids import A, B

pytestmark = pytest.mark.slow

COLUMNS = ["stream", "of", "name", "effect", "from", "reason"]


@pytest.fixture
def plan(cli, bench, tmp_path):
    """Run `plan` on the bench's stream and table, and check that it changes no file of the table."""

    def run(*arguments):
        before = files(tmp_path)
        done = cli("plan", *bench.options, *arguments, "--json")
        assert files(tmp_path) == before
        return done

    return run


def files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def rows(done, of="shard"):
    return {line["name"]: (line["effect"], line["from"]) for line in done.lines if line["of"] == of}


def reasons(done, of):
    return {line["name"]: line["reason"] for line in done.lines if line["of"] == of}


def test_without_a_table_each_shard_starts_at_the_configured_start(plan, bench):
    bench.create(2)
    done = plan("--start", "AT_TIMESTAMP:2026-01-31T12:00:00Z")
    assert done.exit_code == 0, done.err
    assert [list(line) for line in done.lines] == [COLUMNS] * 3
    start = ("starts", "AT_TIMESTAMP:2026-01-31T12:00:00Z")
    assert rows(done) == {A: start, B: start}
    assert rows(done, "table") == {bench.table.uri: ("starts", None)}
    assert rows(done, "setting") == {}
    assert not Path(bench.table.uri).exists()


def test_with_positions_shards_resume_and_a_changed_start_has_no_effect(plan, bench):
    bench.create(2)
    (number,) = bench.put(1, shard_id=A)
    bench.run()
    done = plan("--start", "LATEST")
    assert done.exit_code == 0, done.err
    assert rows(done) == {
        A: ("resumes", f"AFTER_SEQUENCE_NUMBER:{number}"),
        B: ("resumes", "TRIM_HORIZON"),
    }
    assert rows(done, "setting") == {"start": ("no effect", None)}
    assert "seek" in reasons(done, "setting")["start"]


def test_finished_shards_their_children_and_waiting_shards_are_distinguished(plan, bench):
    bench.create()
    bench.put(1)
    bench.run()
    low, high = bench.split(A)
    assert {name: effect for name, (effect, _) in rows(plan()).items()} == {
        A: "resumes",
        low: "waits",
        high: "waits",
    }
    bench.run([A])
    assert {name: effect for name, (effect, _) in rows(plan()).items()} == {
        A: "finished",
        low: "resumes",
        high: "resumes",
    }


def test_an_invalid_start_is_refused_before_there_are_positions_only(plan, bench):
    bench.create()
    arguments = ["--set", "start={shardId-000000000009: LATEST}"]
    done = plan(*arguments)
    assert done.exit_code == 1
    assert rows(done, "table") == {bench.table.uri: ("refused", None)}
    assert "shardId-000000000009" in reasons(done, "table")[bench.table.uri]
    bench.run()
    assert plan(*arguments).exit_code == 0


def test_a_table_with_rows_but_without_positions_is_refused(plan, bench, monkeypatch):
    from kinesis_assets.table.snapshot import TableSnapshot  # noqa: PLC0415

    bench.create()
    bench.put(1)
    bench.run()
    monkeypatch.setattr(TableSnapshot, "positions", lambda *_, **__: None)
    done = plan()
    assert (done.exit_code, rows(done)) == (1, {})
    reason = reasons(done, "table")[bench.table.uri]
    assert "kinesis-assets adopt" in reason
    assert not reason.startswith("table ")


def test_a_restored_table_is_refused(plan, bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.restore(0)
    done = plan()
    assert done.exit_code == 1
    assert "kinesis-assets adopt" in reasons(done, "table")[bench.table.uri]


def test_a_recreated_stream_is_refused_or_starts_again_as_configured(plan, bench):
    bench.create()
    (number,) = bench.put(1)
    bench.run()
    bench.delete()
    bench.later(seconds=5)
    bench.create()
    refused = plan()
    assert refused.exit_code == 1
    assert "on_recreated: restart" in reasons(refused, "table")[bench.table.uri]
    done = plan("--on-recreated", "restart", "--start", "LATEST")
    assert done.exit_code == 0
    assert [(line["name"], line["effect"], line["from"]) for line in done.lines if line["of"] == "shard"] == [
        (A, "given up", f"AFTER_SEQUENCE_NUMBER:{number}"),
        (A, "starts", "TRIM_HORIZON"),
    ]
    assert rows(done, "setting") == {"start": ("no effect", None)}


@pytest.mark.parametrize(("policy", "does"), [("fail", "the shard fails"), ("continue", "records the gap")])
def test_records_that_may_have_expired_are_reported_with_what_the_policy_does(plan, bench, policy, does):
    bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=25)
    done = plan("--on-data-loss", policy)
    assert rows(done)[A][0] == "resumes"
    assert does in reasons(done, "shard")[A]


def test_a_shard_that_is_missing_from_the_list_is_refused(plan, bench):
    bench.create()
    bench.put(1)
    bench.run()
    first = bench.at(A)
    shards = {**bench.positions.shards, "shardId-000000000007": msgspec.structs.replace(first)}
    bench.forge(shards=shards)
    done = plan()
    assert done.exit_code == 1
    assert rows(done)["shardId-000000000007"][0] == "refused"
    assert rows(done)[A][0] == "resumes"


def test_a_stream_that_does_not_exist_is_an_error_and_not_a_plan(plan):
    done = plan()
    assert (done.exit_code, done.out) == (1, "")


def test_shorter_retention_shows_which_rows_maintenance_would_delete(plan, bench):
    bench.create()
    bench.put(1)
    bench.run()
    arrived = bench.now.date()
    assert rows(plan("--set", "retention_days=3"), "setting") == {}
    bench.later(days=5)
    done = plan("--set", "retention_days=3")
    assert rows(done, "setting") == {"retention_days": ("deletes rows", None)}
    reason = reasons(done, "setting")["retention_days"]
    assert_mentions(reason, arrived, bench.now.date() - timedelta(days=3))


def test_longer_retention_does_not_bring_deleted_rows_back(plan, bench):
    bench.create()
    bench.put(1)
    bench.run()
    floor = bench.now.date() - timedelta(days=3)
    bench.amend(floor=floor)
    for arguments in (["--set", "retention_days=30"], []):
        done = plan(*arguments)
        assert rows(done, "setting") == {"retention_days": ("no effect", None)}
        assert str(floor) in reasons(done, "setting")["retention_days"]


def test_a_table_on_a_disk_is_not_registered(plan, bench):
    bench.create()
    done = plan("--set", "catalog={database: lake}")
    assert rows(done, "setting") == {"catalog": ("no effect", None)}


def test_the_mode_of_the_runs_and_settings_of_the_other_mode_are_shown(plan, bench):
    bench.create()
    assert rows(plan("--set", "follow_for=3600"), "setting") == {"follow_for": ("continuous", None)}
    done = plan("--set", "commit_interval=5")
    assert rows(done, "setting") == {"commit_interval": ("no effect", None)}


def test_the_default_output_is_a_table(cli, bench):
    bench.create()
    header, *lines = cli("plan", *bench.options).out.splitlines()
    assert header.split() == COLUMNS[1:]
    assert [line.split()[:3] for line in lines] == [
        ["table", bench.table.uri, "starts"],
        ["shard", A, "starts"],
    ]
