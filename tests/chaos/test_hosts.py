"""Four drivers on two hosts ingest one stream into one table.

Each host has a network of its own, and their clocks are 20 minutes apart. One of them is cut off from the
stream and the store for a while, so that its connections hang.
"""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from benchmarks.harness.waiting import wait_until
from benchmarks.servers.versitygw import running, variables_of
from kinesis_assets.emulator import app as emulator
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.testing import LocalKinesis
from support.hosts import HostsUnavailable, hosts_with_clocks
from support.pipeline import Pipeline
from support.racer import Racer
from support.skipping import give_up
from support.timing import WRITING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import dagster as dg

    from support.hosts import Host

AHEAD = 600
"""How many seconds the clock of host "a" is ahead, and that of host "b" behind. S3 accepts up to 900."""

CUTS = 4

Drivers = dict[str, Racer]


@pytest.fixture(scope="module")
def hosts(environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Host]]:
    """The hosts "a" and "b"."""
    del environment
    with ExitStack() as stack:
        clocks = {"a": AHEAD, "b": -AHEAD}
        try:
            hosts = stack.enter_context(hosts_with_clocks(clocks, tmp_path_factory.mktemp("hosts")))
        except HostsUnavailable as error:
            give_up(str(error))
        yield hosts


@pytest.fixture(scope="module")
def gateway(
    hosts: dict[str, Host], gateway_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """The environment variables that point a process, on any of the hosts, to an S3 server."""
    with running(gateway_program, tmp_path_factory.mktemp("versitygw"), hosts["a"].server) as url:
        yield variables_of(url)


@pytest.fixture(scope="module")
def service(hosts: dict[str, Host]) -> Iterator[ClientSettings]:
    """The settings with which the hosts reach an emulator."""
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(emulator, "LOOPBACK", hosts["a"].server)
            local = stack.enter_context(LocalKinesis())
            settings = ClientSettings(local.region, local.endpoint_url)
        yield settings


@pytest.fixture(scope="module")
def drivers_of_module(hosts: dict[str, Host], gateway: dict[str, str]) -> Iterator[Drivers]:
    """Two drivers on each host, each with a Spark session of its own."""
    drivers = {f"{name}{number}": Racer(host, gateway) for name, host in hosts.items() for number in (1, 2)}
    with ExitStack() as stack:
        for driver in drivers.values():
            stack.enter_context(driver)
        yield drivers


@pytest.fixture
def drivers(drivers_of_module: Drivers, hosts: dict[str, Host]) -> Iterator[Drivers]:
    """The drivers "a1", "a2", "b1" and "b2". Afterwards, no host is cut off."""
    yield drivers_of_module
    for host in hosts.values():
        host.reconnect()


@pytest.fixture
def pipeline(
    stream: str, service: ClientSettings, lake: str, ephemeral_instance: dg.DagsterInstance
) -> Pipeline:
    """A pipeline whose stream the test creates."""
    kinesis = boto3.client("kinesis", endpoint_url=service.endpoint_url, region_name=service.region_name)
    return Pipeline(
        kinesis, service, stream, PositionedTable(f"{lake}/table", WRITING), instance=ephemeral_instance
    )


def start(drivers: Sequence[Racer], pipeline: Pipeline, shard_ids: Sequence[str]) -> None:
    """Let drivers materialize shards at once, up to their commits."""
    for driver in drivers:
        driver.start(pipeline, shard_ids)
    for driver in drivers:
        driver.wait_until_ready()


def commit(drivers: Sequence[Racer]) -> None:
    for driver in drivers:
        driver.commit()


def events_of(drivers: Sequence[Racer]) -> list[dict[str, Any]]:
    return [event for driver in drivers for event in driver.events()]


def assert_one_winner(events: Sequence[Mapping[str, Any]], shard_ids: Sequence[str]) -> None:
    """Of the drivers of a shard, one has committed it, and the others report a conflict and no rows."""
    for shard_id in shard_ids:
        of_shard = [event for event in events if event["shard"] == shard_id]
        lost = [event for event in of_shard if event["state"] != "committed"]
        assert len(lost) == len(of_shard) - 1
        assert {(event["error_class"], event["rows"]) for event in lost} <= {("PositionConflict", 0)}


def commit_new_records(drivers: Sequence[Racer], pipeline: Pipeline, shard_ids: Sequence[str]) -> None:
    """Let drivers materialize new records of the same shards at once. One of them commits each shard."""
    pipeline.put_many(200)
    start(drivers, pipeline, shard_ids)
    commit(drivers)
    assert_one_winner(events_of(drivers), shard_ids)


@pytest.mark.thorough
def test_of_the_drivers_on_a_shard_one_commits_each_round(pipeline: Pipeline, drivers: Drivers) -> None:
    shards = pipeline.create(4)
    everything = dict.fromkeys(drivers, shards)
    # Each shard is read on both hosts, and no driver reads the same shards as another.
    overlapping = {"a1": shards[:2], "a2": shards[2:], "b1": shards[1:3], "b2": shards}
    for of_driver in (everything, overlapping, overlapping):
        pipeline.put_many(200)
        for name, driver in drivers.items():
            driver.start(pipeline, of_driver[name])
        for driver in drivers.values():
            driver.wait_until_ready()
        commit([*drivers.values()])
        assert_one_winner(events_of([*drivers.values()]), shards)
        pipeline.assert_exactly_once()
        pipeline.assert_rows_equal_positions()


@pytest.mark.thorough
def test_a_host_that_was_cut_off_before_its_commit_adds_no_row_of_the_other(
    pipeline: Pipeline, drivers: Drivers, hosts: dict[str, Host]
) -> None:
    shards = pipeline.create(4)
    on_a, on_b = [drivers["a1"], drivers["a2"]], [drivers["b1"], drivers["b2"]]
    pipeline.put_many(200)
    began = time.time()
    start([*on_a, *on_b], pipeline, shards)
    hosts["b"].cut_off()
    commit(on_b)
    wait_until(lambda: hosts["b"].hangs)
    commit(on_a)
    assert_one_winner(events_of(on_a), shards)
    commit_new_records(on_a, pipeline, shards)
    assert pipeline.delta.history(1)[0]["timestamp"] / 1000 > began + AHEAD
    hosts["b"].reconnect()
    conflicts = events_of(on_b)
    assert {(event["state"], event["error_class"], event["rows"]) for event in conflicts} == {
        ("conflict", "PositionConflict", 0)
    }
    assert len(conflicts) == 2 * len(shards)
    pipeline.assert_exactly_once()
    commit_new_records(on_b, pipeline, shards)
    assert pipeline.delta.history(1)[0]["timestamp"] / 1000 < time.time() - AHEAD
    pipeline.assert_exactly_once()
    pipeline.assert_rows_equal_positions()


@pytest.mark.thorough
def test_no_record_is_lost_or_duplicated_by_a_host_that_is_cut_off_at_random_moments(
    pipeline: Pipeline, drivers: Drivers, hosts: dict[str, Host]
) -> None:
    shards = pipeline.create(4)
    runs_of_b: list[object] = []
    stop = Event()

    def race(name: str) -> None:
        while not stop.is_set():
            result = drivers[name].race(pipeline, shards)
            if name.startswith("b"):  # it may fail, with any error of the package
                runs_of_b.append(result)
            else:
                assert not isinstance(result, str), result
                assert {event.get("error_class") for event in result} <= {None, "PositionConflict"}

    with ThreadPoolExecutor() as pool:
        races = [pool.submit(race, name) for name in drivers]

        def wait_for(condition: Callable[[], bool]) -> None:
            wait_until(lambda: condition() or any(each.done() for each in races))

        try:
            for number in range(CUTS):
                pipeline.put_many(100)
                time.sleep(random.uniform(0, 2))  # the moment may be in any step of a run
                hosts["b"].cut_off()
                wait_for(lambda: hosts["b"].hangs)
                hosts["b"].reconnect()
                wait_for(partial(lambda number: len(runs_of_b) > number, number))
        finally:
            hosts["b"].reconnect()
            stop.set()
        for each in races:
            each.result()
    commit_new_records([*drivers.values()], pipeline, shards)
    pipeline.assert_exactly_once()
    pipeline.assert_rows_equal_positions()
