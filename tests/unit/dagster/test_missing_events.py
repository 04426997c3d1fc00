"""Missing events, of runs that died between their commit and its event, are added."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import msgspec
import pytest

from kinesis_assets.dagster import commit_links
from kinesis_assets.dagster import missing_events as module
from kinesis_assets.dagster import run_events as told_module
from kinesis_assets.dagster.commit_links import ChainSegment, event_of
from kinesis_assets.dagster.missing_events import ComparisonProgress, find_missing_events
from kinesis_assets.dagster.names import raw_key
from kinesis_assets.errors import TableUnreachable
from kinesis_assets.table.amendments import FORMAT, Amendment
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.commit_link import CommitLink
from support.daemon import FIRST, LAST, PARTITION, Daemon, Status

if TYPE_CHECKING:
    from kinesis_assets.table.positions import StreamPositions

A, B = (f"shardId-{number:012d}" for number in range(2))


def current_positions(daemon: Daemon) -> StreamPositions:
    opened = daemon.opened
    found = opened.table.snapshot().positions(opened.client.describe().identity)
    assert found is not None
    return found


def fill(daemon: Daemon) -> Amendment:
    """Commit an amendment as a replay does."""
    positions = current_positions(daemon)
    amendment = Amendment(
        format=FORMAT,
        commit_id=new_id(),
        previous=None,
        batch_id=new_id(),
        at=positions.identity.created,
        filled={A: positions.added[A]},
    )
    opened = daemon.opened
    opened.table.snapshot().commit([], identity=positions.identity, amendment=amendment)
    return amendment


# The sensor


def test_the_commit_of_a_run_that_died_before_its_event_is_reported_once(source, daemon):
    source.create(2)
    numbers = source.put(A, 3)
    daemon.tick()
    run = daemon.run({FIRST: A, LAST: B})
    result = daemon.commit([A, B], run.run_id)
    daemon.end(run, Status.FAILURE)

    daemon.tick()
    daemon.tick()

    outcome = result.outcomes[A]
    assert daemon.materializations() == [
        {
            "stream": source.name,
            "shard": A,
            "state": "committed",
            "from": "TRIM_HORIZON",
            "through": f"AFTER_SEQUENCE_NUMBER:{numbers[-1]}",
            "rows": 3,
            "bytes": 15,
            "first_sequence_number": numbers[0],
            "last_sequence_number": numbers[-1],
            "checksum": str(outcome.stats.checksum),
            "batch_id": str(result.batch_id),
        }
    ]
    assert daemon.instance.get_materialized_partitions(raw_key(source.name)) == {A}


@pytest.mark.parametrize("by", ["11111111-2222-3333-4444-555555555555", None], ids=["unknown", "unnamed"])
def test_a_commit_of_an_unknown_run_is_reported(source, daemon, by):
    source.create(1)
    source.put(A, 3)
    result = daemon.commit([A], by)
    daemon.tick()
    daemon.tick()
    assert [facts["batch_id"] for facts in daemon.materializations()] == [str(result.batch_id)]


def test_commits_of_an_active_run_are_reported_after_its_end(source, daemon):
    source.create(2)
    source.put(A, 3)
    source.put(B, 4)
    daemon.tick()
    run = daemon.run({PARTITION: A})
    daemon.commit([A], run.run_id)
    daemon.commit([B], None)

    daemon.tick()
    assert [facts["shard"] for facts in daemon.materializations()] == [B]

    daemon.end(run, Status.CANCELED)
    daemon.tick()
    daemon.tick()
    assert [facts["shard"] for facts in daemon.materializations()] == [A, B]


def test_commits_that_a_run_has_reported_are_not_reported_again(source, daemon):
    source.create(2)
    source.put(A, 3)
    source.put(B, 4)
    daemon.tick()
    run = daemon.run({FIRST: A, LAST: B})
    result = daemon.commit([A, B], run.run_id)
    batch = {"batch_id": str(result.batch_id)}
    daemon.report_event(run, dg.AssetMaterialization(raw_key(source.name), partition=A, metadata=batch))
    # The shard failed after it had committed rows, and must be shown as failed.
    daemon.report_event(run, dg.AssetObservation(raw_key(source.name), partition=B, metadata=batch))
    daemon.end(run, Status.FAILURE)
    daemon.tick()
    assert [facts for facts in daemon.materializations() if "rows" in facts] == []


def test_a_fresh_cursor_adds_nothing_that_was_added_before(source, daemon):
    source.create(1)
    source.put(A, 3)
    daemon.commit([A], None)
    daemon.tick()
    daemon.cursor = None
    daemon.tick()
    assert len(daemon.materializations()) == 1


def test_rows_that_a_replay_added_are_reported(source, daemon):
    source.create(1)
    source.put(A, 3)
    daemon.commit([A], None)
    positions = current_positions(daemon)
    amendment = fill(daemon)
    daemon.tick()
    daemon.tick()
    assert [(facts["batch_id"], facts["state"]) for facts in daemon.materializations()] == [
        (str(amendment.batch_id), "filled"),
        (str(positions.batch_id), "committed"),
    ]


def test_a_tick_without_a_new_commit_reads_no_positions_file(source, daemon, monkeypatch):
    source.create(1)
    source.put(A, 3)
    daemon.commit([A], None)
    daemon.tick()

    def read(link):
        raise AssertionError(link)

    monkeypatch.setattr(CommitLink, "of_positions", read)
    daemon.tick()


def test_an_unreadable_amendment_stops_neither_runs_nor_the_events_of_commits(source, daemon, caplog):
    source.create(1)
    source.put(A, 3)
    result = daemon.commit([A], None)
    amendment = fill(daemon)
    opened = daemon.opened
    path = Path(opened.table.uri, "_kinesis", "past", f"{amendment.commit_id}.json")
    content = path.read_bytes()
    path.write_text("{")

    assert daemon.requested_ranges() == [(A,)]

    assert [facts["batch_id"] for facts in daemon.materializations()] == [str(result.batch_id)]
    assert f"{amendment.commit_id}.json cannot be decoded" in caplog.text
    path.write_bytes(content)
    daemon.tick()
    assert [facts["batch_id"] for facts in daemon.materializations()] == [
        str(amendment.batch_id),
        str(result.batch_id),
    ]


def test_an_unreadable_commit_stops_no_run_and_is_reported_later(source, daemon, monkeypatch):
    source.create(1)
    source.put(A, 3)
    result = daemon.commit([A], None)
    amendment = fill(daemon)

    def refuse(positions: StreamPositions) -> CommitLink:
        raise TableUnreachable("table", f"{positions.commit_id} cannot be read")

    with monkeypatch.context() as patch:
        patch.setattr(CommitLink, "of_positions", refuse)
        assert daemon.requested_ranges() == [(A,)]
    assert [facts["batch_id"] for facts in daemon.materializations()] == [str(amendment.batch_id)]
    daemon.tick()
    assert [facts["batch_id"] for facts in daemon.materializations()] == [
        str(result.batch_id),
        str(amendment.batch_id),
    ]


# Chains of commits by commit id, of which 1 is the oldest


@pytest.fixture
def chain(source, daemon) -> dict[int, CommitLink]:
    """Ten unreported commits of one shard each."""
    source.create(1)
    source.put(A, 3)
    daemon.commit([A], None)
    added = current_positions(daemon).added
    base = new_id()
    return {
        number: CommitLink(number, number - 1 or None, base + number, None, added) for number in range(1, 11)
    }


def searches(
    daemon: Daemon, chain: dict[int, CommitLink], done: ComparisonProgress, newest: int, files: int = 200
):
    """Search for missing events once; return the reported commits and the progress."""
    stream = daemon.project.stream
    links = chain.__getitem__
    events, done = find_missing_events(daemon.instance, stream, links, newest, done, max_files=files)
    for event in events:
        daemon.instance.report_runless_asset_event(event)
    base = chain[1].batch_id - 1
    return [int(str(event.metadata["batch_id"].value)) - base for event in events], done


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


def test_a_search_adds_a_limited_number_of_events(daemon, chain, monkeypatch):
    monkeypatch.setattr(module, "MAX_EVENTS", 4)
    found, done = searches(daemon, chain, ComparisonProgress(), 10)
    assert found == [1, 2, 3, 4]
    assert done == ComparisonProgress(10, (ChainSegment(10, 4),))
    again, _ = searches(daemon, chain, done, 10)
    assert again == [5, 6, 7, 8]


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
        events, done = find_missing_events(daemon.instance, daemon.project.stream, link_at, newest, done)
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
        daemon.report_event(run, event_of(link, daemon.project.stream, A))
    daemon.end(run, Status.SUCCESS)
    pages, search = [], dg.DagsterInstance.get_records_for_run

    def noted(*given, **named):
        pages.append(search(*given, **named))
        return pages[-1]

    monkeypatch.setattr(dg.DagsterInstance, "get_records_for_run", noted)
    monkeypatch.setattr(told_module, "PAGE_SIZE", 4)
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


def test_a_run_that_never_ends_does_not_delay_the_events_of_much_later_commits(daemon, chain, monkeypatch):
    monkeypatch.setattr(commit_links, "_MAX_COMMITS_BETWEEN", 3)
    endless, between, last = (daemon.run({PARTITION: A}) for _ in range(3))
    chain |= {
        number: replace(link, by=(endless if number == 1 else last if number > 5 else between).run_id)
        for number, link in chain.items()
    }
    _, done = searches(daemon, chain, ComparisonProgress(0), 10)
    daemon.end(between, Status.CANCELED)
    found, done = searches(daemon, chain, done, 10)
    assert found == [2, 3, 4, 5]
    assert done.left == (ChainSegment(10, 5, (last.run_id,)), ChainSegment(1, None, (endless.run_id,)))


def test_the_cursor_of_a_version_without_runs_is_read():
    assert msgspec.json.decode(b"[9,7]", type=ChainSegment) == ChainSegment(9, 7)


class Watch:
    """A clock that the test advances."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def timed_searches(daemon, chain, monkeypatch, read_seconds=0.0, found_seconds=0.0):
    """Return the commits that each search reports if reading files and events takes time."""
    watch, found, done = Watch(), [], ComparisonProgress(through=0)
    whole = module.commits_without_events

    def slow_events(*given):
        watch.seconds += found_seconds
        return whole(*given)

    def slow_link(commit_id):
        watch.seconds += read_seconds
        return chain[commit_id]

    monkeypatch.setattr(module, "commits_without_events", slow_events)
    monkeypatch.setattr(module, "_EVENTS_PER_SEARCH", 1)
    base = chain[1].batch_id - 1
    while True:
        events, done = find_missing_events(
            daemon.instance, daemon.project.stream, slow_link, 10, done, clock=watch
        )
        if not events:
            return found, done
        for event in events:
            daemon.instance.report_runless_asset_event(event)
        found.append([int(str(event.metadata["batch_id"].value)) - base for event in events])


def test_a_search_with_slow_files_ends_in_time_and_the_next_one_continues(daemon, chain, monkeypatch):
    found, done = timed_searches(daemon, chain, monkeypatch, read_seconds=1.5)
    assert found == [[8, 9, 10], [5, 6, 7], [2, 3, 4], [1]]
    assert done == ComparisonProgress(10)


def test_a_search_with_slow_events_ends_in_time_and_the_next_one_continues(daemon, chain, monkeypatch):
    found, done = timed_searches(daemon, chain, monkeypatch, found_seconds=2.5)
    assert found == [[9, 10], [7, 8], [5, 6], [3, 4], [1, 2]]
    assert done == ComparisonProgress(10)


def test_the_progress_is_stored_in_the_cursor():
    done = ComparisonProgress(10, (ChainSegment(9, 7, ("run",)), ChainSegment(3, None)))
    assert msgspec.json.decode(msgspec.json.encode(done), type=ComparisonProgress) == done
