"""The sensor requests idle shards rarely, and at once when records arrive."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from kinesis_assets.table.policy import TablePolicy
from kinesis_assets.table.positions.positions_chain import ChainPolicy
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.testing.exchange import Answer
from support.daemon import PARTITION, Status
from support.fixtures.dagster import Source
from support.mentions import assert_mentions
from support.shard_ids import A, B, C, D, E, F, G, H
from support.virtual_deployment import VirtualDeployment

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.fixtures.stream import Clocked

pytestmark = pytest.mark.slow  # hours of ticks and their runs

HOUR = 3600
LONGEST = 4 * HOUR

INTERVAL = 900
"""Seconds between two ticks. `deployments/test_idle_day.py` has more of them."""


@pytest.fixture
def source(clocked: Clocked, stream: str) -> Source:
    """The test's stream, by the clock of the test."""
    return Source(clocked.kinesis, stream)


@pytest.fixture
def deploy(make_project, instance, clocked: Clocked) -> Callable[..., VirtualDeployment]:
    """Builds the deployment of the test's stream."""

    def deploy(**fields: object) -> VirtualDeployment:
        project = make_project(endpoint_url=clocked.settings.endpoint_url, **fields)
        deployment = VirtualDeployment(project, instance, clocked.clock)
        deployment.interval = INTERVAL
        return deployment

    return deploy


@pytest.fixture
def idle(source, deploy) -> VirtualDeployment:
    """The deployment of a stream with four shards, which were read to their tips a while ago."""
    source.create(4)
    deployment = deploy()
    assert deployment.tick() == [(A, B, C, D)]
    deployment.interval = HOUR
    assert deployment.pass_time(HOUR) == []
    deployment.interval = INTERVAL
    return deployment


def pass_day(deployment: VirtualDeployment) -> list[tuple[int, tuple[str, ...]]]:
    """Let a day pass with fewer ticks, each of which may request a run, and return the runs."""
    deployment.interval = HOUR
    return deployment.pass_time(24 * HOUR)


def lie_to_probes(faults, change, **calls):
    """Change the responses to probes only: a run requests more than one record."""

    def change_if_probed(call, response):
        return change(response) if call.arguments["Limit"] == 1 else None

    faults.answer("GetRecords", change_if_probed, **calls)


# How often


def test_an_idle_stream_has_at_most_12_runs_a_day(source, deploy):
    source.create(2)
    deployment = deploy()
    deployment.tick()
    pass_day(deployment)
    runs = deployment.runs
    assert {shards for _, shards in runs} == {(A, B)}
    assert 6 <= len(runs) <= 12
    waits = [later - earlier for (earlier, _), (later, _) in pairwise(runs)]
    assert all(LONGEST <= wait <= LONGEST + deployment.interval for wait in waits)


def test_the_longest_time_without_a_run_is_a_setting(source, deploy):
    source.create(1)
    deployment = deploy(max_idle_seconds=1800)
    deployment.tick()
    assert [at for at, _ in deployment.pass_time(2 * HOUR)] == [1800, 3600, 5400, 7200]


def test_an_idle_shard_is_read_several_times_within_the_retention(source, deploy):
    source.create(1)
    deployment = deploy(max_idle_seconds=1_000_000)
    deployment.tick()
    assert [at for at, _ in deployment.pass_time(12 * HOUR)] == [4 * HOUR, 8 * HOUR, 12 * HOUR]


def test_shards_that_became_idle_at_different_times_are_read_together(source, idle):
    source.put(B, 1)
    idle.pass_time(INTERVAL)
    idle.pass_time(INTERVAL)
    assert {shards for _, shards in pass_day(idle)} == {(A, B, C, D)}


# Ranges


def reshard(source, deployment) -> None:
    """Split two of four shards, and read the children."""
    source.split(B)
    source.split(D)
    for _ in range(3):
        deployment.pass_time(INTERVAL)
    finished = {shard_id for shard_id, shard in deployment.daemon.positions.shards.items() if shard.finished}
    assert finished == {B, D}


@pytest.fixture
def resharded(source, idle) -> VirtualDeployment:
    """The deployment of an idle stream whose open shards are three ranges: finished parents are between."""
    reshard(source, idle)
    return idle


def test_an_idle_stream_with_several_ranges_has_at_most_12_runs_a_day(resharded):
    runs = pass_day(resharded)
    assert {shards for _, shards in runs} == {(A, B, C, D, E, F, G, H)}
    assert len(runs) <= 12


def test_archived_parents_do_not_separate_the_idle_runs(source, idle):
    opened = idle.daemon.opened
    policy = TablePolicy(chain=ChainPolicy(max_files=0, min_archived=1))
    opened.table = PositionedTable(opened.settings.table, policy)
    reshard(source, idle)
    idle.interval = LONGEST
    idle.pass_time(36 * HOUR)
    assert {B, D}.isdisjoint(idle.daemon.positions.shards)
    runs = pass_day(idle)
    assert {shards for _, shards in runs} == {(A, B, C, D, E, F, G, H)}
    assert len(runs) <= 12


def test_an_idle_run_does_not_pass_over_a_partition_without_a_shard(source, idle):
    idle.daemon.add_partitions("not a shard")
    reshard(source, idle)
    assert {shards for _, shards in idle.pass_time(2 * LONGEST)} == {(A, B, C), (E, F, G, H)}


def test_an_idle_run_does_not_pass_over_a_shard_in_a_run(resharded):
    run = resharded.daemon.run({PARTITION: C})
    runs = resharded.pass_time(LONGEST)
    resharded.daemon.end(run, Status.SUCCESS)
    assert {shards for _, shards in runs} == {(A,), (E, F, G, H)}


def test_shards_with_records_are_not_read_together_with_the_finished_ones_between(source, resharded):
    source.put(A, 1)
    source.put(C, 1)
    assert resharded.tick() == [(A,), (C,)]


# Records arrive


def test_the_next_tick_requests_an_idle_shard_that_received_a_record(source, idle):
    numbers = source.put(B, 1)
    assert idle.tick() == [(B,)]
    assert idle.daemon.positions.shards[B].position.sequence_number == numbers[-1]
    assert idle.tick() == []


def test_a_shard_with_records_at_each_tick_is_requested_at_each_tick(source, idle):
    for _ in range(3):
        source.put(C, 1)
        assert idle.tick() == [(C,)]


def test_idle_shards_between_others_are_read_in_the_same_run(source, idle):
    source.put(B, 1)
    source.put(D, 1)
    assert idle.tick() == [(B, C, D)]


def test_few_shards_of_a_busy_stream_are_probed(source, deploy, faults):
    source.create(8)
    deployment = deploy()
    (shards,) = deployment.tick()
    for shard_id in shards:
        source.put(shard_id, 1)
    before = faults.count("GetRecords")

    deployment.daemon.tick()

    assert faults.count("GetRecords") - before == 2


def test_a_shard_that_was_not_read_to_its_tip_is_requested_without_a_probe(source, deploy, faults):
    source.create(1)
    source.put(A, 30)
    deployment = deploy(max_records=10)
    deployment.tick()
    deployment.tick()
    lie_to_probes(faults, lambda _: pytest.fail("the shard was probed"))
    assert deployment.tick() == [(A,)]


def test_the_children_of_an_idle_shard_are_requested_when_they_can_be_read(source, idle):
    source.split(A)
    assert idle.tick() == [(A,)]
    assert idle.tick() == [(E, F)]
    assert idle.tick() == []


def test_a_record_that_arrived_while_a_run_was_canceled_is_requested_again_at_once(source, idle):
    idle.pass_time(LONGEST)  # without a record, the next run would be as late as this one
    source.put(A, 1)
    assert idle.tick(Status.CANCELED) == [(A,)]
    assert idle.tick() == [(A,)]


def test_a_record_for_which_a_run_had_no_allowance_is_requested_again_at_once(source, deploy):
    source.create(2)
    deployment = deploy(max_run_records=5)
    deployment.tick()
    deployment.pass_time(HOUR)
    source.put(A, 50)
    source.put(B, 1)
    assert deployment.tick() == [(A, B)]
    assert deployment.tick() == [(A, B)]


def test_a_record_whose_run_failed_is_requested_again_after_its_wait(source, idle):
    source.put(A, 1)
    assert idle.tick(Status.FAILURE) == [(A,)]
    assert idle.tick() == []
    idle.clock.advance(30)
    assert idle.tick() == [(A,)]
    assert idle.tick() == []


def test_continuous_runs_are_requested_although_the_stream_is_idle(source, deploy, faults):
    source.create(2)
    deployment = deploy(follow_for=60.0)
    deployment.tick()
    before = faults.count("GetRecords")
    assert deployment.daemon.requested_ranges() == [(A, B)]
    assert faults.count("GetRecords") == before


# The service is wrong, or does not respond


def test_records_that_the_service_hides_are_read_after_the_longest_time(source, idle, faults):
    numbers = source.put(A, 1)
    lie_to_probes(faults, lambda response: response.but(Records=[], MillisBehindLatest=0))
    runs = idle.pass_time(LONGEST)
    assert runs == [(LONGEST, (A, B, C, D))]
    assert idle.daemon.positions.shards[A].position.sequence_number == numbers[-1]


def test_a_record_that_was_read_before_is_no_new_record(source, idle, faults):
    (number,) = source.put(A, 1)
    idle.tick()
    stale = {"SequenceNumber": number, "Data": "", "PartitionKey": "k", "ApproximateArrivalTimestamp": 1.0}
    lie_to_probes(faults, lambda response: response.but(Records=[stale]), shard_id=A)
    assert idle.tick() == []


def invented(clocked: Clocked) -> dict[str, object]:
    """A record that no shard has."""
    return {
        "SequenceNumber": "4" * 56,
        "Data": "",
        "PartitionKey": "k",
        "ApproximateArrivalTimestamp": clocked.clock.seconds,
    }


def test_a_record_that_does_not_exist_costs_one_run(source, deploy, faults, clocked):
    source.create(1)
    deployment = deploy()
    deployment.tick()
    deployment.pass_time(HOUR)
    lie_to_probes(faults, lambda response: response.but(Records=[invented(clocked)]))
    at = HOUR + INTERVAL
    # Afterwards, a run is requested after the wait that would also apply without any response.
    assert [run[0] for run in deployment.pass_time(LONGEST)] == [at, 2 * at, 4 * at]


def test_a_record_after_one_that_does_not_exist_is_requested_at_once(source, idle, faults, clocked):
    idle.pass_time(LONGEST)
    lies = [[invented(clocked)]] * 2
    lie_to_probes(faults, lambda response: response.but(Records=lies.pop()) if lies else None, shard_id=A)
    assert idle.tick() == [(A,)]
    assert idle.tick() == []
    source.put(A, 1)
    assert idle.tick() == [(A,)]


def test_a_tick_requests_shards_less_and_less_often_while_probes_fail(source, deploy, faults):
    source.create(2)
    source.put(A, 1)
    source.put(B, 1)
    deployment = deploy()
    deployment.tick()
    lie_to_probes(faults, lambda _: Answer.error("AccessDeniedException"))
    times = [at for at, _ in pass_day(deployment)]
    waits = [later - earlier for earlier, later in pairwise([0, *times])]
    assert waits == sorted(waits)
    assert waits[0] == deployment.interval
    assert waits[-1] == LONGEST
    assert len(times) <= 12
    reason = deployment.daemon.tick().skip_reason.skip_message
    assert_mentions(reason, "2 shards", "idle", "probe", "AccessDeniedException")


def test_a_shard_that_only_a_probe_sees_closed_is_requested(idle, faults):
    lie_to_probes(faults, lambda response: response.but(NextShardIterator=None), shard_id=B)
    assert idle.tick() == [(B,)]
    assert idle.tick() == []


def test_empty_pages_before_the_tip_are_not_taken_for_records(idle, faults):
    faults.empty_page(shard_id=A, times=2)
    assert idle.tick() == []
    assert faults.count("GetRecords", A) >= 3


def test_the_reason_of_a_skipped_tick_counts_the_idle_shards(idle):
    assert_mentions(idle.daemon.tick().skip_reason.skip_message, "4 shards", "idle")
    idle.daemon.run({PARTITION: A})
    assert_mentions(idle.daemon.tick().skip_reason.skip_message, "unfinished run", "3 shards", "idle")
