"""A search for unreported commits goes back a limited number of commits, and continues in the next tick."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import dagster as dg
import msgspec
import pytest

from kinesis_assets.dagster.dagster_internals import report_outside_of_runs
from kinesis_assets.dagster.events import missing_events as module
from kinesis_assets.dagster.events.metadata import exact_values
from kinesis_assets.dagster.events.missing_events import (
    MAX_EVENTS,
    ChainSegment,
    ComparisonProgress,
    event_of,
    find_missing_events,
)
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.positions.commit_link import CommitLink
from support.daemon import PARTITION, Daemon, Status
from support.shard_ids import A

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.fixture
def chain(source, daemon) -> dict[int, CommitLink]:
    """Ten unreported commits of one shard each."""
    source.create(1)
    source.put(A, 3)
    daemon.commit([A], None)
    added = daemon.positions.added
    base = new_id()
    return {
        number: CommitLink(number, number - 1 or None, base + number, None, added) for number in range(1, 11)
    }


def searches(
    daemon: Daemon, chain: dict[int, CommitLink], done: ComparisonProgress, newest: int, files: int = 200
):
    """Search for missing events once; return the reported commits and the progress."""
    names = daemon.project.names
    links = chain.__getitem__
    events, done = find_missing_events(daemon.instance, names, links, newest, done, max_files=files)
    for event in events:
        daemon.instance.report_runless_asset_event(event)
    base = chain[1].batch_id - 1
    return [int(exact_values(event)["batch_id"]) - base for event in events], done


def test_only_the_newest_part_of_an_unread_chain_is_reported(daemon, chain):
    found, done = searches(daemon, chain, ComparisonProgress(), 10, files=4)
    assert found == [7, 8, 9, 10]
    assert done == ComparisonProgress(10)


def test_many_commits_are_reported_over_several_searches_once_each(daemon, chain):
    done = ComparisonProgress(1)
    found = []
    for newest in (9, 10, 10, 10):
        some, done = searches(daemon, chain, done, newest, files=3)
        found.append(some)
    assert found == [[7, 8, 9], [5, 6, 10], [2, 3, 4], []]
    assert done == ComparisonProgress(10)


def with_shards(chain: dict[int, CommitLink], count: int) -> dict[int, CommitLink]:
    """Return the commits with rows of a number of shards each."""
    (stats,) = chain[1].added.values()
    added = {f"shardId-{number:012}": stats for number in range(count)}
    return {number: replace(link, added=added) for number, link in chain.items()}


def commits_of(chain: dict[int, CommitLink], events: Sequence[dg.AssetMaterialization]) -> list[int]:
    """Return the commits that events report, and assert that each of them is reported for all its shards."""
    by_batch = {str(link.batch_id): number for number, link in chain.items()}
    shards = Counter(by_batch[exact_values(event)["batch_id"]] for event in events)
    assert all(count == len(chain[number].added) for number, count in shards.items())
    return list(shards)


def test_a_search_adds_a_limited_number_of_events(daemon, chain):
    chain = with_shards(chain, MAX_EVENTS // 4)

    def search(done: ComparisonProgress) -> tuple[list[int], ComparisonProgress]:
        links = chain.__getitem__
        events, done = find_missing_events(daemon.instance, daemon.project.names, links, 10, done)
        return commits_of(chain, events), done

    found, done = search(ComparisonProgress())
    assert found == [1, 2, 3, 4]
    assert done == ComparisonProgress(10, (ChainSegment(10, 4),))
    again, _ = search(done)
    assert again == [5, 6, 7, 8]


@pytest.mark.slow
def test_events_of_a_commit_of_many_shards_are_added_in_several_searches(daemon, chain):
    chain = with_shards({1: chain[1]}, 2 * MAX_EVENTS + 1)
    added, done = [], ComparisonProgress()
    while not added or done.left:
        events, done = find_missing_events(daemon.instance, daemon.project.names, chain.__getitem__, 1, done)
        assert len(events) <= MAX_EVENTS
        report_outside_of_runs(daemon.instance, events)
        added += [event.partition for event in events]
    assert sorted(added) == sorted(chain[1].added)


def test_no_commit_of_an_active_run_is_read_twice(daemon, chain):
    first, second = (daemon.run({PARTITION: A}) for _ in range(2))
    chain |= {
        number: replace(link, by=(first if number < 9 else second).run_id)
        for number, link in chain.items()
        if number > 1
    }
    read = []

    def link_at(commit_id: int) -> CommitLink:
        read.append(commit_id)
        return chain[commit_id]

    def search(done: ComparisonProgress, newest: int) -> tuple[int, ComparisonProgress]:
        read.clear()
        events, done = find_missing_events(daemon.instance, daemon.project.names, link_at, newest, done)
        return len(events), done

    events, done = search(ComparisonProgress(0), 5)
    assert (events, read) == (1, [5, 4, 3, 2, 1])
    events, done = search(done, 10)
    assert (events, read) == (0, [10, 9, 8, 7, 6])
    assert done == ComparisonProgress(10, (ChainSegment(10, 1, (second.run_id, first.run_id)),))
    assert search(done, 10) == (0, done)
    assert read == []
    daemon.end(first, Status.CANCELED)
    events, done = search(done, 10)
    assert (events, read) == (7, [10, 9, 8, 7, 6, 5, 4, 3, 2])
    assert done == ComparisonProgress(10, (ChainSegment(10, 8, (second.run_id,)),))


def by_runs(chain: dict[int, CommitLink], *runs: dg.DagsterRun) -> None:
    """Assign the commits to runs in turn."""
    for number, link in chain.items():
        chain[number] = replace(link, by=runs[number % len(runs)].run_id)


def test_the_events_of_a_run_are_read_once_for_all_its_commits(daemon, chain, monkeypatch):
    run = daemon.run({PARTITION: A})
    by_runs(chain, run)
    for link in chain.values():
        daemon.report_event(run, event_of(link, daemon.project.names, A))
    daemon.end(run, Status.SUCCESS)
    pages, search = [], dg.DagsterInstance.get_records_for_run

    def short_page(instance, run_id, cursor, kinds, limit, *, ascending):
        assert limit > 4
        pages.append(search(instance, run_id, cursor, kinds, 4, ascending=ascending))
        return pages[-1]

    monkeypatch.setattr(dg.DagsterInstance, "get_records_for_run", short_page)
    assert searches(daemon, chain, ComparisonProgress(4), 10) == ([], ComparisonProgress(10))
    assert [len(page.records) for page in pages] == [4, 4]


def test_unreported_commits_of_concurrent_runs_become_one_range_when_one_of_them_ends(daemon, chain):
    first, second, third = (daemon.run({PARTITION: A}) for _ in range(3))
    by_runs(chain, first, second, third)
    _, done = searches(daemon, chain, ComparisonProgress(0), 10)
    daemon.end(first, Status.CANCELED)
    found, done = searches(daemon, chain, done, 10)
    assert found == [3, 6, 9]
    assert done == ComparisonProgress(10, (ChainSegment(10, None, (second.run_id, third.run_id)),))
    daemon.end(second, Status.CANCELED)
    daemon.end(third, Status.CANCELED)
    assert searches(daemon, chain, done, 10) == ([1, 2, 4, 5, 7, 8, 10], ComparisonProgress(10))


def test_a_run_that_never_ends_does_not_delay_the_events_of_much_later_commits(daemon, chain):
    endless, between, last = (daemon.run({PARTITION: A}) for _ in range(3))
    chain |= {
        number: replace(
            chain[1], commit_id=number, previous=number - 1, batch_id=chain[1].batch_id + number - 1
        )
        for number in range(11, 15)
    }
    chain |= {
        number: replace(link, by=(endless if number == 1 else last if number > 12 else between).run_id)
        for number, link in chain.items()
    }
    _, done = searches(daemon, chain, ComparisonProgress(0), 14)
    daemon.end(between, Status.CANCELED)
    found, done = searches(daemon, chain, done, 14)
    assert found == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert done.left == (ChainSegment(14, 12, (last.run_id,)), ChainSegment(1, None, (endless.run_id,)))


def test_the_cursor_of_a_version_without_runs_is_read():
    assert msgspec.json.decode(b"[9,7]", type=ChainSegment) == ChainSegment(9, 7)


class Watch:
    """A clock that the test advances."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def timed_searches(daemon, chain, monkeypatch, read_seconds=0.0, found_seconds=0.0):
    """Return the commits that each search finds if reading files and events takes time."""
    watch, found, done = Watch(), [], ComparisonProgress(through=0)
    whole = module.commits_without_events

    def slow_events(*given):
        watch.seconds += found_seconds
        return whole(*given)

    def slow_link(commit_id):
        watch.seconds += read_seconds
        return chain[commit_id]

    monkeypatch.setattr(module, "commits_without_events", slow_events)
    while True:
        events, done = find_missing_events(
            daemon.instance, daemon.project.names, slow_link, len(chain), done, clock=watch
        )
        if not events:
            return found, done
        found.append(commits_of(chain, events))


def test_a_search_with_slow_files_ends_in_time_and_the_next_one_continues(daemon, chain, monkeypatch):
    found, done = timed_searches(daemon, chain, monkeypatch, read_seconds=1.5)
    assert found == [[8, 9, 10], [5, 6, 7], [2, 3, 4], [1]]
    assert done == ComparisonProgress(10)


@pytest.mark.slow
def test_a_search_with_slow_events_ends_in_time_and_the_next_one_continues(daemon, chain, monkeypatch):
    """The events of 500 shards or more are searched together before the time is checked again."""
    monkeypatch.setattr(module, "MAX_EVENTS", 1000)
    chain = with_shards({number: chain[number] for number in range(1, 6)}, 500)
    found, done = timed_searches(daemon, chain, monkeypatch, found_seconds=2.5)
    assert found == [[4, 5], [2, 3], [1]]
    assert done == ComparisonProgress(5)


def test_the_progress_is_stored_in_the_cursor():
    done = ComparisonProgress(10, (ChainSegment(9, 7, ("run",)), ChainSegment(3, None)))
    assert msgspec.json.decode(msgspec.json.encode(done), type=ComparisonProgress) == done
