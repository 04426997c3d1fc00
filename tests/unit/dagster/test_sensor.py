"""The partitions that the sensor adds, and the runs that it requests."""

from __future__ import annotations

import dagster as dg
import pytest

from kinesis_assets.dagster import newest_partitions as newest
from kinesis_assets.dagster import sensor
from kinesis_assets.dagster.in_process import StreamProject
from kinesis_assets.dagster.names import raw_key, shard_partitions, stream_key
from kinesis_assets.dagster.newest_partitions import FIRST_PAGE, newest_partitions
from kinesis_assets.dagster.sensor import RUNS_PER_TICK
from kinesis_assets.errors import StreamNotFound, StreamRecreated
from support.daemon import FIRST, LAST, PARTITION, Daemon, Status

A, B, C, D, E, F, G, H, I, J = (f"shardId-{number:012d}" for number in range(10))  # noqa: E741


# Partitions


def test_partitions_are_added_parents_first_in_any_order_of_the_list(source, daemon, faults):
    source.create(2)
    source.split(B)
    faults.answer("ListShards", lambda _, answer: answer.but(Shards=answer.members["Shards"][::-1]))

    daemon.tick()

    assert daemon.partition_keys() == [A, B, C, D]


def test_a_tick_adds_only_new_partitions(source, daemon):
    source.create(2)
    daemon.tick()
    source.split(A)

    (request,) = daemon.tick().dynamic_partitions_requests

    assert request.partition_keys == [C, D]
    assert daemon.partition_keys() == [A, B, C, D]
    assert not daemon.tick().dynamic_partitions_requests


def test_a_shard_that_was_finished_before_the_first_tick_gets_no_partition(source, daemon):
    source.create(2)
    source.split(A)
    daemon.finish(A)

    daemon.tick()

    assert daemon.partition_keys() == [B, C, D]


def test_a_finished_shard_keeps_its_partition(source, daemon):
    source.create(2)
    source.split(A)
    daemon.tick()
    daemon.finish(A)

    daemon.tick()

    assert daemon.partition_keys() == [A, B, C, D]


def test_each_shard_is_reported_once_on_the_stream_asset_with_its_parents(source, daemon):
    source.create(2)
    source.merge(A, B)
    daemon.tick()
    daemon.tick()

    records = daemon.instance.fetch_materializations(stream_key(source.name), limit=10).records
    told = {
        record.partition_key: {
            name: value.value for name, value in record.asset_materialization.metadata.items()
        }
        for record in records
    }
    assert len(records) == 3
    assert {shard_id: facts["parents"] for shard_id, facts in told.items()} == {
        A: "none",
        B: "none",
        C: f"{A}, {B}",
    }
    assert told[C]["hash_range"] == f"0 to {2**128 - 1}"


# Run requests


def test_the_first_tick_requests_one_run_over_all_open_shards(source, stream, daemon):
    source.create(4)
    (request,) = daemon.tick().run_requests
    assert {name: request.tags[name] for name in (FIRST, LAST)} == {FIRST: A, LAST: D}
    assert PARTITION not in request.tags
    assert request.asset_selection == [raw_key(stream)]


def test_a_single_shard_is_requested_by_the_partition_tag(source, daemon):
    source.create(1)
    (request,) = daemon.tick().run_requests
    assert request.tags[PARTITION] == A
    assert not {FIRST, LAST} & request.tags.keys()


def test_runs_have_no_run_key(source, daemon):
    source.create(4)
    daemon.add_partitions(A, B, C, D)
    source.split(B)
    daemon.finish(B)
    assert [request.run_key for request in daemon.tick().run_requests] == [None, None]


def test_ranges_are_contiguous_in_insertion_order_not_by_name(source, daemon):
    source.create(5)
    daemon.add_partitions(C, A, D, B)
    source.split(A)
    daemon.finish(A)

    assert daemon.requested_ranges() == [(C,), (D, G)]
    assert daemon.partition_keys() == [C, A, D, B, E, F, G]


def test_a_partition_that_is_no_shard_is_in_no_range(source, daemon):
    source.create(4)
    daemon.add_partitions(A, B, "bogus", C)
    assert daemon.requested_ranges() == [(A, B), (C, D)]


def test_finished_shards_are_not_requested(source, daemon):
    source.create(4)
    daemon.tick()
    source.split(A)
    source.split(C)
    daemon.finish(A, C)
    assert daemon.requested_ranges() == [(B,), (D, H)]


def test_a_child_is_requested_after_its_parent_is_finished(source, daemon):
    source.create(2)
    source.split(A)
    assert daemon.requested_ranges() == [(A, B)]

    daemon.finish(A)

    assert daemon.requested_ranges() == [(B, D)]


def test_the_child_of_a_merge_waits_for_both_parents(source, daemon):
    source.create(2)
    source.merge(A, B)
    daemon.finish(A)
    assert daemon.requested_ranges() == [(B,)]
    daemon.finish(B)
    assert daemon.requested_ranges() == [(C,)]


def test_a_grandchild_waits_for_all_its_ancestors(source, daemon):
    source.create(1)
    source.split(A)
    source.split(B)
    assert daemon.requested_ranges() == [(A,)]
    daemon.finish(A)
    assert daemon.requested_ranges() == [(B, C)]
    daemon.finish(B)
    assert daemon.requested_ranges() == [(C, E)]


def test_a_shard_whose_parent_was_trimmed_before_the_first_tick_does_not_wait(source, daemon, faults):
    source.create(1)
    source.split(A)
    faults.answer("ListShards", lambda _, answer: answer.but(Shards=answer.members["Shards"][1:]))
    faults.answer("DescribeStreamSummary", created_long_ago)
    assert daemon.requested_ranges() == [(B, C)]


def created_long_ago(_, answer):
    summary = answer.members["StreamDescriptionSummary"]
    created = summary["StreamCreationTimestamp"] - 30 * 3600
    return answer.but(StreamDescriptionSummary=summary | {"StreamCreationTimestamp": created})


# Shards of unfinished runs


UNFINISHED = [
    Status.QUEUED,
    Status.NOT_STARTED,
    Status.STARTING,
    Status.STARTED,
    Status.CANCELING,
]


@pytest.mark.parametrize("status", UNFINISHED, ids=lambda status: status.value)
def test_the_shard_of_an_unfinished_single_run_is_skipped(status, source, daemon):
    source.create(4)
    daemon.tick()
    daemon.run({PARTITION: B}, status)
    assert daemon.requested_ranges() == [(A,), (C, D)]


@pytest.mark.parametrize("status", UNFINISHED, ids=lambda status: status.value)
def test_the_shards_of_an_unfinished_range_run_are_skipped(status, source, daemon):
    source.create(5)
    daemon.tick()
    daemon.run({FIRST: B, LAST: D}, status)
    assert daemon.requested_ranges() == [(A,), (E,)]


def test_the_range_of_an_unfinished_run_counts_in_insertion_order(source, daemon):
    source.create(4)
    daemon.add_partitions(C, A, D, B)
    daemon.run({FIRST: C, LAST: D})
    assert daemon.requested_ranges() == [(B,)]


@pytest.mark.parametrize("status", [Status.SUCCESS, Status.CANCELED], ids=lambda status: status.value)
def test_the_shards_of_a_finished_run_are_requested_again(status, source, daemon):
    source.create(3)
    (request,) = daemon.tick().run_requests
    daemon.run(dict(request.tags), status)
    assert daemon.requested_ranges() == [(A, C)]


def test_a_tick_is_skipped_with_a_reason_if_every_shard_is_in_a_run(source, daemon):
    source.create(3)
    (request,) = daemon.tick().run_requests
    daemon.run(dict(request.tags))

    data = daemon.tick()

    assert not data.run_requests
    assert data.skip_reason.skip_message == "every readable shard has an unfinished run"


def test_a_run_of_another_asset_holds_no_shard(source, stream, project, instance):
    source.create(2)

    @dg.asset(partitions_def=shard_partitions(stream))
    def parsed() -> None:
        """A user's asset with the same partitions."""

    both = dg.Definitions.merge(project.definitions, dg.Definitions(assets=[parsed]))
    daemon = Daemon(StreamProject(stream, both), instance)
    daemon.tick()
    instance.create_run_for_job(
        both.resolve_implicit_global_asset_job_def(),
        tags={PARTITION: A},
        status=Status.STARTED,
        asset_selection=frozenset({parsed.key}),
    )

    assert daemon.requested_ranges() == [(A, B)]


def test_a_run_without_an_asset_selection_holds_its_shards(source, daemon, instance):
    source.create(2)
    daemon.tick()
    instance.create_run_for_job(
        daemon.project.definitions.resolve_implicit_global_asset_job_def(),
        tags={PARTITION: A},
        status=Status.STARTED,
    )
    assert daemon.requested_ranges() == [(B,)]


def test_a_users_job_over_other_assets_holds_no_shard(source, daemon, instance):
    source.create(2)
    daemon.tick()

    @dg.op
    def nothing() -> None: ...

    @dg.job
    def other() -> None:
        nothing()

    instance.create_run_for_job(other, tags={PARTITION: A}, status=Status.STARTED)
    assert daemon.requested_ranges() == [(A, B)]


def test_a_users_job_over_the_raw_asset_holds_its_shards(source, stream, project, instance):
    source.create(2)
    job = dg.define_asset_job("mine", selection=[raw_key(stream)])
    both = dg.Definitions.merge(project.definitions, dg.Definitions(jobs=[job]))
    daemon = Daemon(StreamProject(stream, both), instance)
    daemon.tick()
    instance.create_run_for_job(both.resolve_job_def("mine"), tags={PARTITION: A}, status=Status.STARTED)
    assert daemon.requested_ranges() == [(B,)]


def test_streams_do_not_see_each_others_runs_and_partitions(source, make_project, instance, tmp_path):
    other = source.sibling()
    source.create(3)
    other.create(3)
    projects = make_project(), make_project(stream=other.name, table=str(tmp_path / "other"))
    both = dg.Definitions.merge(*(project.definitions for project in projects))
    ours, theirs = (Daemon(StreamProject(name, both), instance) for name in (source.name, other.name))

    theirs.tick()
    assert ours.partition_keys() == []
    theirs.run({FIRST: A, LAST: B})
    other.split(C)
    theirs.finish(C)

    assert ours.requested_ranges() == [(A, C)]
    assert theirs.requested_ranges() == [(D, E)]


# Rotation of the ranges


@pytest.fixture
def scattered(source, daemon: Daemon) -> list[str]:
    """The shards A, C, E, G and I, which are not adjacent, because those between are in runs."""
    source.create(10)
    daemon.add_partitions(A, B, C, D, E, F, G, H, I, J)
    for shard_id in (B, D, F, H, J):
        daemon.run({PARTITION: shard_id})
    return [A, C, E, G, I]


@pytest.mark.usefixtures("scattered")
def test_a_tick_requests_a_limited_number_of_runs(daemon):
    assert daemon.requested_ranges() == [(A,), (C,), (E,)]
    assert RUNS_PER_TICK == 3


def test_all_ranges_are_requested_in_turn(daemon, scattered):
    """Runs may end before the next tick, so that no shard is held."""
    asked = [shard_id for _ in range(5) for (shard_id,) in daemon.requested_ranges()]
    assert asked == scattered * 3


@pytest.mark.usefixtures("scattered")
def test_the_cursor_of_an_older_version_is_the_last_shard(daemon):
    daemon.cursor = E
    assert daemon.requested_ranges() == [(G,), (I,), (A,)]


@pytest.mark.usefixtures("scattered")
@pytest.mark.parametrize("cursor", ["{", '{"last_asked": 7}', '{"backoff": {"shards": []}}'])
def test_a_damaged_cursor_restarts_at_the_first_range(daemon, cursor):
    daemon.cursor = cursor
    assert daemon.requested_ranges() == [(A,), (C,), (E,)]


@pytest.mark.usefixtures("scattered")
def test_a_cursor_with_an_unknown_partition_restarts_at_the_first_range(daemon):
    daemon.cursor = "shardId-000000000077"
    assert daemon.requested_ranges() == [(A,), (C,), (E,)]


@pytest.mark.usefixtures("scattered")
def test_a_tick_without_a_request_keeps_the_order(daemon):
    daemon.tick()
    busy = daemon.run({FIRST: A, LAST: J})
    assert daemon.requested_ranges() == []
    daemon.instance.report_run_canceled(busy)
    assert daemon.requested_ranges() == [(G,), (I,), (A,)]


# Calls and queries of a tick


def test_a_tick_never_reads_the_stream(source, daemon, faults):
    source.create(2)
    source.split(A)
    daemon.tick()
    daemon.finish(A)
    daemon.tick()
    assert {call.operation for call in faults.calls} <= {
        "CreateStream",
        "SplitShard",
        "ListShards",
        "DescribeStreamSummary",
    }


def test_the_number_of_partition_queries_does_not_grow_with_the_shards(source, daemon, monkeypatch):
    looks = []

    class Keys(list):
        def __iter__(self):
            looks.append(self)
            return super().__iter__()

    monkeypatch.setattr(sensor, "newest_partitions", lambda *args: Keys(newest_partitions(*args)))
    source.create(10)
    daemon.tick()
    assert daemon.partition_keys() == [A, B, C, D, E, F, G, H, I, J]
    assert len(looks) < 10


def test_a_tick_does_not_read_the_partitions_of_finished_shards(source, daemon, monkeypatch):
    daemon.add_partitions(*(f"shardId-000-{number:08}" for number in range(5000)))
    source.create(2)
    daemon.tick()
    read = []
    pages = dg.DagsterInstance.get_paginated_dynamic_partitions

    def counted(*args, **more):
        page = pages(*args, **more)
        read.extend(page.results)
        return page

    monkeypatch.setattr(dg.DagsterInstance, "get_paginated_dynamic_partitions", counted)
    monkeypatch.delattr(dg.DagsterInstance, "get_dynamic_partitions")
    assert daemon.requested_ranges() == [(A, B)]
    assert len(read) <= FIRST_PAGE


def test_a_run_over_a_range_that_begins_at_an_unread_partition_holds_its_shards(source, daemon, monkeypatch):
    monkeypatch.setattr(newest, "FIRST_PAGE", 1)
    source.create(2)
    source.split(B)
    source.split(A)
    daemon.tick()
    daemon.finish(A, B)
    daemon.run({FIRST: A, LAST: C})
    assert daemon.requested_ranges() == [(D, F)]


def test_a_new_shard_beside_many_old_partitions_is_added_once(source, daemon, monkeypatch):
    monkeypatch.setattr(newest, "FIRST_PAGE", 1)
    source.create(5)
    daemon.tick()
    source.split(E)
    (request,) = daemon.tick().dynamic_partitions_requests
    assert request.partition_keys == [F, G]
    assert daemon.partition_keys() == [A, B, C, D, E, F, G]
    assert not daemon.tick().dynamic_partitions_requests


def test_a_tick_does_not_create_the_table(source, daemon, tmp_path):
    source.create(2)
    daemon.tick()
    assert not (tmp_path / "table" / "_delta_log").exists()


@pytest.mark.usefixtures("kinesis")
def test_a_missing_stream_is_reported_in_one_line(stream, daemon):
    with pytest.raises(StreamNotFound) as caught:
        daemon.tick()
    told = str(caught.value)
    assert told.startswith(f"stream {stream}: not found")
    assert "\n" not in told


def test_a_recreated_stream_is_refused(source, stream, daemon):
    source.create(2)
    source.split(A)
    daemon.finish(A)
    source.delete()
    source.create(2)
    with pytest.raises(StreamRecreated, match=f"stream {stream}: .* Use a new table for the new stream"):
        daemon.tick()
