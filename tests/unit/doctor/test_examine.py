"""Findings of the doctor: which problems it reports, and what it accepts."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import msgspec
import pytest
from dagster._core.remote_origin import ManagedGrpcPythonEnvCodeLocationOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    SensorInstigatorData,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from deltalake import write_deltalake

from kinesis_assets.dagster.event_log import materializations_since
from kinesis_assets.dagster.names import raw_key, sensor_name
from kinesis_assets.dagster.run_liveness import Liveness, SignOfLife
from kinesis_assets.dagster.sensor import Cursor
from kinesis_assets.doctor.row_scan import Counted, Scan
from kinesis_assets.errors import TableRewritten
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.amendments import ClearedGap
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.heartbeat import HEARTBEATS_FOLDER, Heartbeat, heartbeats
from kinesis_assets.table.maintenance.pruning import CHAIN_KEPT, CHAIN_NEEDED
from kinesis_assets.table.maintenance.retention import lower_floor
from kinesis_assets.table.ownership import OWNER
from kinesis_assets.table.positions import Seek
from support.shifted_clock import ShiftedClock

A, B, C, D = (f"shardId-{number:012d}" for number in range(4))


@pytest.fixture
def numbers(ward) -> list[str]:
    """Read two shards in three commits; return the sequence numbers of the first shard."""
    ward.create(2)
    put = []
    for _ in range(3):
        put += ward.put(3)
        ward.put(2, part=0.5)
        ward.run()
    return put


# Table, positions and stream


@pytest.mark.usefixtures("numbers")
def test_a_healthy_table_has_no_problem(ward, instance):
    ward.findings(instance=instance, add_events=True)
    assert ward.levels(instance=instance) == {
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


def test_a_missing_table_is_reported(ward):
    ward.create()
    ((check, _, sentence),) = ward.problems()
    assert check == "table"
    assert "the first run creates it; nothing else was checked" in sentence


def test_a_missing_stream_is_reported(ward):
    ((check, _, sentence),) = ward.problems()
    assert check == "stream"
    assert "not found" in sentence


def test_a_stream_before_its_first_run_is_not_a_problem(ward):
    ward.create()
    ward.table.create_if_missing()
    assert ward.levels() == {"table": {"ok"}, "positions": {"info"}}


@pytest.mark.usefixtures("numbers")
def test_unreadable_positions_are_reported(ward):
    path = Path(ward.table.uri, "_kinesis", "positions", f"{ward.positions.commit_id}.json")
    path.write_text("{")
    ((check, _, sentence),) = ward.problems()
    assert check == "table"
    assert "cannot be decoded" in sentence


@pytest.mark.usefixtures("numbers")
def test_a_recreated_stream_is_reported(ward):
    ward.kinesis.delete_stream(StreamName=ward.client.stream)
    time.sleep(1.1)  # creation times are whole seconds
    ward.create()
    assert [check for check, _, _ in ward.problems()] == ["stream"]


# Continuity


@pytest.mark.usefixtures("numbers")
def test_a_range_that_does_not_start_at_the_end_of_the_previous_one_is_reported(ward):
    now = ward.positions
    stats = msgspec.structs.replace(now.added[A], start=Position.after("1"))
    ward.rewrite(msgspec.structs.replace(now, added=now.added | {A: stats}))
    ((check, shard, sentence),) = ward.problems()
    assert (check, shard) == ("continuity", A)
    assert "its rows start after AFTER_SEQUENCE_NUMBER:1, but the previous commit ended at" in sentence


@pytest.mark.usefixtures("numbers")
def test_a_position_that_differs_from_the_end_of_its_range_is_reported(ward):
    now = ward.positions
    stats = msgspec.structs.replace(now.added[A], through=now.added[A].start)
    ward.rewrite(msgspec.structs.replace(now, added=now.added | {A: stats}))
    ((check, shard, _),) = ward.problems()
    assert (check, shard) == ("continuity", A)


def test_rows_outside_their_range_are_reported(ward, numbers):
    now = ward.positions
    stats = msgspec.structs.replace(now.added[A], first_sequence_number=numbers[0])
    ward.rewrite(msgspec.structs.replace(now, added=now.added | {A: stats}))
    ((check, shard, sentence),) = ward.problems()
    assert (check, shard) == ("continuity", A)
    assert "are not between" in sentence


def test_a_position_that_moved_without_rows_is_reported(ward, numbers):
    shard = msgspec.structs.replace(ward.positions.shards[A], position=Position.after(numbers[-1] + "0"))
    forged = ward.forge(shards=ward.positions.shards | {A: shard})
    ((check, shard_id, sentence),) = ward.problems()
    assert (check, shard_id) == ("continuity", A)
    assert sentence.startswith(f"generation {forged.generation}: it moved from")


def test_a_position_that_moved_across_a_recorded_gap_is_not_a_problem(ward, numbers):
    shard = ward.positions.shards[A]
    gap = Gap(
        after=shard.position, since=None, next_sequence_number=None, until=ward.positions.identity.created
    )
    moved = msgspec.structs.replace(shard, position=Position.after(numbers[-1] + "0"), gaps=(gap,))
    ward.forge(shards=ward.positions.shards | {A: moved})
    assert ward.problems() == []
    assert ward.levels()["shards"] == {"info"}


def test_a_position_set_by_a_seek_is_not_a_problem(ward, numbers):
    shard, place = ward.positions.shards[A], Position.after(numbers[0])
    seek = Seek(at=ward.positions.identity.created, by="me", before=shard.position, after=place)
    moved = msgspec.structs.replace(shard, position=place, seeks=(seek,))
    ward.forge(shards=ward.positions.shards | {A: moved})
    assert ward.problems() == []


@pytest.mark.usefixtures("numbers")
def test_a_missing_generation_is_reported(ward):
    ward.forge(generation=99)
    ((check, _, sentence),) = ward.problems()
    assert check == "continuity"
    assert "generation 99 follows generation" in sentence


@pytest.mark.usefixtures("numbers")
def test_a_missing_position_of_a_shard_is_reported(ward):
    shards = {shard_id: shard for shard_id, shard in ward.positions.shards.items() if shard_id != A}
    ward.forge(shards=shards)
    assert [(check, shard) for check, shard, _ in ward.problems()] == [("continuity", A)]


@pytest.mark.usefixtures("numbers")
def test_a_lost_positions_file_is_reported(ward):
    Path(ward.table.uri, "_kinesis", "positions", f"{ward.positions.previous}.json").unlink()
    ((check, _, sentence),) = ward.problems()
    assert check == "continuity"
    assert "too recent to have been pruned" in sentence


def pass_time(ward, duration):
    """Advance the clock of the machine."""
    clock = ShiftedClock()
    clock.advance(duration.total_seconds() / 3600)
    ward.table.policy = replace(ward.table.policy, clock=clock)


def test_a_pruned_chain_is_not_a_problem(ward, numbers):
    del numbers
    Path(ward.table.uri, "_kinesis", "positions", f"{ward.positions.previous}.json").unlink()
    pass_time(ward, CHAIN_KEPT)
    assert ward.problems() == []


def test_a_chain_pruned_before_its_usual_age_is_reported_as_info(ward, numbers):
    """Maintenance prunes earlier if there are very many commits."""
    del numbers
    Path(ward.table.uri, "_kinesis", "positions", f"{ward.positions.previous}.json").unlink()
    pass_time(ward, CHAIN_NEEDED)
    assert ward.problems() == []
    (finding,) = [finding for finding in ward.findings() if finding.check == "continuity"]
    assert (finding.level, "Maintenance prunes it early" in finding.sentence) == ("info", True)


# Shards


@pytest.mark.usefixtures("numbers")
def test_a_new_shard_is_reported_as_info(ward):
    ward.kinesis.split_shard(StreamName=ward.client.stream, ShardToSplit=A, NewStartingHashKey=str(1 << 126))
    assert ward.problems() == []
    assert [finding.shard for finding in ward.findings() if finding.level == "info"][:2] == [C, D]


@pytest.mark.usefixtures("numbers")
def test_an_unread_shard_that_is_no_longer_listed_is_a_problem(ward, faults):
    ward.kinesis.split_shard(StreamName=ward.client.stream, ShardToSplit=A, NewStartingHashKey=str(1 << 126))
    faults.answer("ListShards", lambda _, answer: answer.but(Shards=answer.members["Shards"][1:]))
    assert [(check, shard) for check, shard, _ in ward.problems()] == [("shards", A)]


@pytest.mark.usefixtures("numbers")
def test_a_finished_shard_that_is_open_in_the_stream_is_a_problem(ward):
    shard = ward.positions.shards[A]
    ward.forge(shards=ward.positions.shards | {A: msgspec.structs.replace(shard, finished=True)})
    ((check, shard_id, sentence),) = ward.problems()
    assert (check, shard_id) == ("shards", A)
    arn = ward.positions.identity.arn
    assert f"kinesis-assets seek --stream {arn} --table {ward.table.uri} --shard {A}" in sentence


@pytest.mark.usefixtures("numbers")
def test_a_stale_shard_list_is_requested_again(ward, faults):
    ward.kinesis.split_shard(StreamName=ward.client.stream, ShardToSplit=A, NewStartingHashKey=str(1 << 126))
    ward.run()
    faults.stale_list(times=2)
    assert ward.problems() == []


@pytest.mark.usefixtures("numbers")
def test_a_shard_list_that_stays_stale_is_a_problem(ward, faults):
    ward.kinesis.split_shard(StreamName=ward.client.stream, ShardToSplit=A, NewStartingHashKey=str(1 << 126))
    ward.run()
    faults.stale_list()
    ((check, shard_id, sentence),) = ward.problems()
    assert (check, shard_id) == ("shards", A)
    assert f"though its children {C}, {D} were listed before" in sentence


@pytest.mark.usefixtures("numbers")
def test_records_that_may_have_expired_unread_are_a_problem(ward):
    shard = ward.positions.shards[A]
    long_ago = shard.last_arrival - timedelta(days=30)
    ward.forge(
        shards=ward.positions.shards
        | {A: msgspec.structs.replace(shard, last_arrival=long_ago, tip_time=None)}
    )
    ((check, shard_id, sentence),) = ward.problems()
    assert (check, shard_id) == ("shards", A)
    assert "may have expired" in sentence


# Restore


@pytest.mark.usefixtures("numbers")
def test_a_restored_table_is_a_problem(ward):
    ward.delta.restore(ward.delta.version() - 1)
    assert [check for check, _, _ in ward.problems()] == ["restore"]
    ward.put(1)
    with pytest.raises(TableRewritten):
        ward.run()


@pytest.mark.usefixtures("numbers")
def test_a_table_overwritten_by_a_write_is_a_problem(ward):
    write_deltalake(ward.table.uri, ward.delta.to_pyarrow_table(), mode="overwrite")
    ((check, _, sentence),) = ward.problems()
    assert check == "restore"
    assert f"version {ward.delta.version()} (WRITE, mode Overwrite, " in sentence


@pytest.mark.usefixtures("numbers")
def test_an_accepted_restore_is_not_a_problem_until_the_next_one(ward):
    ward.delta.restore(ward.delta.version() - 1)
    ward.amendment(accepted=ward.delta.version())
    assert ward.levels()["restore"] == {"info"}
    ward.put(1)
    ward.run()
    ward.delta.restore(ward.delta.version() - 1)
    assert ward.levels()["restore"] == {"info", "problem"}


# The log


def entry_of(ward, version):
    return Path(ward.table.uri, "_delta_log", f"{version:020}.json")


@pytest.mark.usefixtures("numbers")
def test_a_log_entry_overwritten_by_another_commit_is_a_problem(ward):
    """A store that ignores conditional puts loses a version on which the next commit is based."""
    ward.put(1)
    ward.run()
    lost, version = ward.positions.commit_id, ward.delta.version()
    ward.put(1)
    ward.run()
    entry = entry_of(ward, version)
    entry.write_text(entry.read_text().replace(str(lost), str(lost + 1)))
    found = [sentence for check, _, sentence in ward.problems() if check == "log"]
    assert len(found) == 2
    assert f"version {version} points at commit {lost + 1}, which is not an ancestor" in found[0]
    assert f"no version in the log points at commit {lost}" in found[1]


@pytest.mark.usefixtures("numbers")
def test_an_overwritten_log_entry_of_an_amendment_is_a_problem(ward):
    for _ in range(3):
        ward.amendment()
    version = ward.delta.version() - 1
    entry = entry_of(ward, version)
    entry.write_text("\n".join(line for line in entry.read_text().splitlines() if '"txn"' not in line))
    assert [check for check, _, _ in ward.problems()] == ["log"]


@pytest.mark.usefixtures("numbers")
def test_log_entries_of_pruned_commits_are_not_a_problem(ward):
    ward.put(1)
    ward.run()
    first = ward.positions.previous
    ward.put(1)
    ward.run()
    Path(ward.table.uri, "_kinesis", "positions", f"{first}.json").unlink()
    assert ward.levels()["log"] == {"ok"}


@pytest.mark.usefixtures("numbers")
def test_a_log_that_starts_after_the_first_commits_is_not_a_problem(ward):
    ward.put(1)
    ward.run()
    ward.delta.create_checkpoint()
    for version in range(ward.delta.version()):
        entry_of(ward, version).unlink()
    assert ward.levels()["log"] == {"ok"}


# Another stream


@pytest.mark.usefixtures("numbers")
def test_a_table_of_another_stream_is_a_problem_with_both_arns(ward):
    ours = ward.client.describe().identity.arn
    other = ours.replace("us-east-1", "eu-west-1")
    ward.delta.alter.set_table_properties({OWNER: other}, raise_if_not_exists=False)
    ((check, _, sentence),) = ward.problems()
    assert check == "table"
    assert ours in sentence
    assert other in sentence


# Gaps


@pytest.mark.usefixtures("numbers")
def test_a_gap_that_a_replay_filled_is_reported_as_filled(ward):
    shard = ward.positions.shards[A]
    gap = Gap(
        after=shard.position, since=shard.last_arrival, next_sequence_number=None, until=shard.last_arrival
    )
    ward.forge(shards=ward.positions.shards | {A: msgspec.structs.replace(shard, gaps=(gap,))})
    reported = [finding.sentence for finding in ward.findings() if finding.check == "shards"]
    assert reported == [f"a gap is recorded: {gap}"]
    ward.amendment(cleared={A: (ClearedGap.of(gap),)})
    reported = [finding.sentence for finding in ward.findings() if finding.check == "shards"]
    assert reported == [f"a gap was recorded, and a replay has filled it: {gap}"]


# Files


@pytest.mark.usefixtures("numbers")
def test_files_without_a_version_are_reported_with_the_age_of_the_oldest(ward):
    folder = Path(ward.table.uri, "arrival_date=2026-01-01")
    folder.mkdir()
    for hours in (1, 3, 2):
        orphan = folder / f"part-{hours}.parquet"
        orphan.write_bytes(b"12345")
        os.utime(orphan, (time.time() - hours * 3600, time.time() - hours * 3600))
    (finding,) = (finding for finding in ward.findings() if finding.check == "files")
    assert finding.level == "info"
    assert finding.sentence.startswith("3 files of 15 bytes belong to no version")
    assert "arrival_date=2026-01-01/part-3.parquet, is 3:00:0" in finding.sentence


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("checkpoint", [False, True], ids=["commits", "checkpoint"])
def test_a_file_of_an_older_version_is_not_reported(ward, checkpoint):
    ward.delta.delete("shard_id = 'none' OR sub_sequence_number = 0")
    if checkpoint:
        ward.delta.create_checkpoint()
        for entry in Path(ward.table.uri, "_delta_log").glob("0*[0-9].json"):
            entry.unlink()
    assert ward.levels()["files"] == {"ok"}


@pytest.mark.usefixtures("numbers")
def test_a_missing_file_of_the_current_version_is_a_problem(ward):
    (first, *_) = sorted(Path(ward.table.uri).glob("arrival_date=*/*.parquet"))
    first.unlink()
    ((check, _, sentence),) = ward.problems()
    assert check == "files"
    assert first.name in sentence


# Events


def materialized(ward, instance) -> list[tuple[str, str]]:
    """The batch and shard of each materialization."""
    events = materializations_since(instance, ward.client.stream, 0.0)
    return sorted((str(event.metadata["batch_id"].value), str(event.partition)) for event in events)


@pytest.mark.usefixtures("numbers")
def test_without_an_instance_events_are_not_checked(ward):
    assert ward.levels()["events"] == {"info"}


def test_missing_events_are_added_once(ward, instance):
    ward.create(2)
    ward.put(3)
    ward.put(2, part=0.5)
    batch = str(ward.run(by="no such run").batch_id)
    assert ward.problems(instance=instance, add_events=True) == []
    ward.findings(instance=instance, add_events=True)
    assert materialized(ward, instance) == [(batch, A), (batch, B)]
    assert ward.levels(instance=instance)["events"] == {"ok"}


def test_missing_events_are_a_problem_and_are_not_added_by_default(ward, instance):
    ward.create()
    ward.put(3)
    ward.run()
    ((check, shard, sentence),) = ward.problems(instance=instance)
    assert (check, shard) == ("events", A)
    assert "3 rows were committed without an event" in sentence
    assert materialized(ward, instance) == []


def test_missing_events_of_an_unfinished_run_are_not_added(ward, instance):
    ward.create()
    ward.put(3)
    with instance:
        run = instance.create_run_for_job(_job(), status=dg.DagsterRunStatus.STARTED)
        ward.run(by=run.run_id)
        assert ward.levels(instance=instance, add_events=True)["events"] == {"info"}
        assert materialized(ward, instance) == []


@pytest.fixture
def home():
    """An instance on disk, which has the state of a sensor."""
    with dg.instance_for_test() as instance:
        yield instance


@pytest.fixture
def dead(ward, home):
    """A run that committed after one heartbeat, and that the sensor of the stream recorded as dead."""
    ward.create()
    ward.put(3)
    raw = raw_key(ward.client.stream)

    @dg.asset(key=raw)
    def rows() -> None: ...

    job = dg.Definitions(assets=[rows]).resolve_implicit_global_asset_job_def()
    run = home.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, asset_selection=frozenset({raw}))
    ward.run(by=run.run_id)
    Heartbeat(ward.table, run.run_id, seconds=60)._beat()
    sign = SignOfLife("STARTED", heartbeats(ward.table)[run.run_id], 0.0, is_dead=True)
    target = LoadableTargetOrigin(module_name="kinesis_assets.definitions")
    location = ManagedGrpcPythonEnvCodeLocationOrigin(target, location_name="kinesis_assets")
    origin = RemoteRepositoryOrigin(location, repository_name="__repository__").get_instigator_origin(
        sensor_name(ward.client.stream)
    )
    cursor = Cursor(liveness=Liveness({run.run_id: sign}, 0.0)).encode()
    home.add_instigator_state(
        InstigatorState(
            origin,
            InstigatorType.SENSOR,
            InstigatorStatus.DECLARED_IN_CODE,
            SensorInstigatorData(cursor=cursor),
        )
    )
    return run


def test_a_dead_run_is_a_problem_with_instructions_and_its_events_are_added(ward, home, dead):
    ((check, _, sentence),) = ward.problems(instance=home, add_events=True)
    assert check == "runs"
    assert f"run {dead.run_id} shows no sign of life" in sentence
    assert "Terminate it in the UI" in sentence
    assert len(materialized(ward, home)) == 1


def test_a_dead_run_that_has_ended_is_not_a_problem(ward, home, dead):
    home.report_run_failed(dead)
    assert ward.problems(instance=home, add_events=True) == []


def test_a_run_with_a_new_heartbeat_is_not_a_problem(ward, home, dead):
    os.utime(Path(ward.table.uri, HEARTBEATS_FOLDER, dead.run_id), (1, 1))
    assert ward.problems(instance=home, add_events=True) == []
    assert materialized(ward, home) == []


@pytest.mark.usefixtures("numbers")
def test_an_event_without_a_commit_is_a_problem(ward, instance):
    ward.findings(instance=instance, add_events=True)
    batch_id = str(new_id())
    for rows in (7, 0):  # an event without rows does not refer to a commit
        metadata = {"batch_id": batch_id, "rows": rows}
        instance.report_runless_asset_event(
            dg.AssetMaterialization(raw_key(ward.client.stream), partition=A, metadata=metadata)
        )
    ((check, shard, sentence),) = ward.problems(instance=instance)
    assert (check, shard) == ("events", A)
    assert sentence.startswith(f"batch {batch_id}: an event reports 7 rows, but no commit added any")


@pytest.mark.usefixtures("numbers")
def test_an_event_with_another_number_of_rows_than_its_commit_is_a_problem(ward, instance):
    ward.findings(instance=instance, add_events=True)
    metadata = {"batch_id": str(ward.positions.batch_id), "rows": 99}
    instance.report_runless_asset_event(
        dg.AssetMaterialization(raw_key(ward.client.stream), partition=A, metadata=metadata)
    )
    ((check, shard, sentence),) = ward.problems(instance=instance)
    assert (check, shard) == ("events", A)
    assert "reports 99 rows, but the commit added 3" in sentence


@pytest.mark.usefixtures("numbers")
def test_events_of_commits_beyond_the_limit_are_not_added(ward, instance, monkeypatch):
    monkeypatch.setattr("kinesis_assets.dagster.event_audit.MAX_FILES", 2)
    older = ward.table.snapshot().positions_at(
        ward.table.snapshot().positions_at(ward.positions.previous).previous
    )
    ward.amendment(filled={A: ward.positions.added[A]})
    for _ in range(2):
        findings = [
            finding
            for finding in ward.findings(instance=instance, add_events=True)
            if finding.check == "events"
        ]
        assert {finding.level for finding in findings} == {"info"}
    (finding,) = findings
    assert finding.sentence.startswith(
        f"1 commits up to batch {older.batch_id} have no event in this instance"
    )
    assert len(materialized(ward, instance)) == 5
    assert ward.problems(instance=instance) == []


@pytest.mark.usefixtures("numbers")
def test_a_replay_during_the_examination_is_not_a_problem(ward, instance):
    ward.findings(instance=instance, add_events=True)

    def replay_meanwhile(_):
        for _ in range(2):
            batch_id = new_id()
            ward.amendment(batch_id=batch_id, filled={A: ward.positions.added[A]})
            metadata = {"batch_id": str(batch_id), "rows": 3}
            instance.report_runless_asset_event(
                dg.AssetMaterialization(raw_key(ward.client.stream), partition=A, metadata=metadata)
            )
        return Scan({}, {})

    findings = ward.findings(instance=instance, read_rows=replay_meanwhile)
    assert [finding.level for finding in findings if finding.check == "events"] == ["ok"]


# Rows


def no_rows(_) -> Scan:
    return Scan({}, {})


@pytest.mark.usefixtures("numbers")
def test_a_floor_before_the_creation_of_the_stream_explains_no_missing_rows(ward):
    ward.amendment(floor=ward.positions.identity.created.date() - timedelta(days=2))
    assert [check for check, _, _ in ward.problems(read_rows=no_rows)] == ["rows"] * 6


@pytest.mark.usefixtures("numbers")
def test_missing_batches_below_the_floor_are_accepted(ward):
    ward.amendment(floor=ward.positions.identity.created.date() + timedelta(days=2))
    assert ward.levels(read_rows=no_rows)["rows"] == {"ok"}


@pytest.mark.usefixtures("numbers")
def test_a_lowered_floor_is_not_a_problem_and_still_explains_earlier_expired_rows(ward):
    high = ward.positions.identity.created.date() + timedelta(days=2)
    ward.amendment(floor=high)
    lower_floor(ward.table, ward.positions.identity, high - timedelta(days=9), datetime.now(UTC), by="ada")
    assert ward.problems(read_rows=no_rows) == []
    (reported,) = (each.sentence for each in ward.findings() if each.check == "continuity")
    assert f"the floor was lowered from {high} to {high - timedelta(days=9)} by ada" in reported


@pytest.mark.usefixtures("numbers")
def test_a_floor_that_decreased_without_a_record_is_a_problem(ward):
    today = ward.positions.identity.created.date()
    ward.amendment(floor=today)
    ward.amendment(floor=today - timedelta(days=1))
    ((check, _, sentence),) = ward.problems()
    assert (check, sentence) == (
        "continuity",
        f"the floor went back from {today} to {today - timedelta(days=1)}",
    )


@pytest.mark.usefixtures("numbers")
def test_a_floor_in_the_future_is_a_problem_with_the_option_to_fix_it(ward):
    ward.amendment(floor=ward.positions.identity.created.date() + timedelta(days=365))
    ((check, _, sentence),) = ward.problems()
    assert check == "floor"
    assert "--lower-floor" in sentence


@pytest.mark.usefixtures("numbers")
def test_uncertain_rows_are_reported_as_info_and_do_not_hide_a_restore(ward):
    ward.delta.restore(ward.delta.version() - 1)
    ward.amendment(floor=ward.positions.identity.created.date() + timedelta(days=2))
    batch_id = ward.positions.batch_id

    def one_row_left(_):
        return Scan({(batch_id, A): Counted(1, 1)}, {})

    levels = ward.levels(read_rows=one_row_left)
    assert (levels["rows"], levels["restore"]) == ({"info"}, {"problem"})


def _job() -> dg.JobDefinition:
    @dg.op
    def nothing() -> None: ...

    @dg.job
    def job() -> None:
        nothing()

    return job
