"""Events that are missing: of runs that died between their commit and its event."""

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


def standing(daemon: Daemon) -> StreamPositions:
    opened = daemon.opened
    found = opened.table.snapshot().positions(opened.client.describe().identity)
    assert found is not None
    return found


def fill(daemon: Daemon) -> Amendment:
    """A commit behind the positions."""
    positions = standing(daemon)
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


def test_a_run_that_died_between_commit_and_event_is_told_once_with_what_it_committed(source, daemon):
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
def test_a_commit_of_a_run_that_the_instance_does_not_know_is_told(source, daemon, by):
    source.create(1)
    source.put(A, 3)
    result = daemon.commit([A], by)
    daemon.tick()
    daemon.tick()
    assert [facts["batch_id"] for facts in daemon.materializations()] == [str(result.batch_id)]


def test_a_run_that_may_still_tell_is_left_until_it_ended(source, daemon):
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


def test_what_a_run_told_itself_is_not_told_again(source, daemon):
    source.create(2)
    source.put(A, 3)
    source.put(B, 4)
    daemon.tick()
    run = daemon.run({FIRST: A, LAST: B})
    result = daemon.commit([A, B], run.run_id)
    batch = {"batch_id": str(result.batch_id)}
    daemon.tell(run, dg.AssetMaterialization(raw_key(source.name), partition=A, metadata=batch))
    # Rows that were committed before a shard failed: it is to be seen as failed.
    daemon.tell(run, dg.AssetObservation(raw_key(source.name), partition=B, metadata=batch))
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


def test_what_a_replay_filled_in_is_told_likewise(source, daemon):
    source.create(1)
    source.put(A, 3)
    daemon.commit([A], None)
    positions = standing(daemon)
    amendment = fill(daemon)
    daemon.tick()
    daemon.tick()
    assert [(facts["batch_id"], facts["state"]) for facts in daemon.materializations()] == [
        (str(amendment.batch_id), "filled"),
        (str(positions.batch_id), "committed"),
    ]


def test_a_tick_without_a_new_commit_reads_no_file_of_the_chain(source, daemon, monkeypatch):
    source.create(1)
    source.put(A, 3)
    daemon.commit([A], None)
    daemon.tick()

    def read(link):
        raise AssertionError(link)

    monkeypatch.setattr(CommitLink, "of_positions", read)
    daemon.tick()


def test_a_past_that_cannot_be_read_stops_neither_runs_nor_the_events_of_commits(source, daemon, caplog):
    source.create(1)
    source.put(A, 3)
    result = daemon.commit([A], None)
    amendment = fill(daemon)
    opened = daemon.opened
    path = Path(opened.table.uri, "_kinesis", "past", f"{amendment.commit_id}.json")
    content = path.read_bytes()
    path.write_text("{")

    assert daemon.spans() == [(A,)]

    assert [facts["batch_id"] for facts in daemon.materializations()] == [str(result.batch_id)]
    assert f"{amendment.commit_id}.json cannot be decoded" in caplog.text
    path.write_bytes(content)
    daemon.tick()
    assert [facts["batch_id"] for facts in daemon.materializations()] == [
        str(amendment.batch_id),
        str(result.batch_id),
    ]


def test_a_commit_that_cannot_be_read_now_stops_no_run_and_is_told_later(source, daemon, monkeypatch):
    source.create(1)
    source.put(A, 3)
    result = daemon.commit([A], None)
    amendment = fill(daemon)

    def refuse(positions: StreamPositions) -> CommitLink:
        raise TableUnreachable("table", f"{positions.commit_id} cannot be read")

    with monkeypatch.context() as patch:
        patch.setattr(CommitLink, "of_positions", refuse)
        assert daemon.spans() == [(A,)]
    assert [facts["batch_id"] for facts in daemon.materializations()] == [str(amendment.batch_id)]
    daemon.tick()
    assert [facts["batch_id"] for facts in daemon.materializations()] == [
        str(result.batch_id),
        str(amendment.batch_id),
    ]


# Chains: their commits, by token, 1 being the oldest


@pytest.fixture
def chain(source, daemon) -> dict[int, CommitLink]:
    """Ten commits that nobody was told of, each of one shard."""
    source.create(1)
    source.put(A, 3)
    daemon.commit([A], None)
    added = standing(daemon).added
    base = new_id()
    return {
        number: CommitLink(number, number - 1 or None, base + number, None, added) for number in range(1, 11)
    }


def looks(
    daemon: Daemon, chain: dict[int, CommitLink], done: ComparisonProgress, newest: int, files: int = 200
):
    """One look; the commits that it tells of, and how far it came."""
    stream = daemon.project.stream
    links = chain.__getitem__
    events, done = find_missing_events(daemon.instance, stream, links, newest, done, max_files=files)
    for event in events:
        daemon.instance.report_runless_asset_event(event)
    base = chain[1].batch_id - 1
    return [int(str(event.metadata["batch_id"].value)) - base for event in events], done


def test_of_a_chain_that_was_never_looked_at_only_the_newest_part_is_told(daemon, chain):
    found, done = looks(daemon, chain, ComparisonProgress(), 10, files=4)
    assert found == [7, 8, 9, 10]
    assert done == ComparisonProgress(10)


def test_a_long_stretch_is_told_over_several_looks_and_each_commit_once(daemon, chain):
    done = ComparisonProgress(1)
    found = []
    for newest in (9, 10, 10, 10):
        some, done = looks(daemon, chain, done, newest, files=3)
        found.append(some)
    assert found == [[7, 8, 9], [5, 6, 10], [2, 3, 4], []]
    assert done == ComparisonProgress(10)


def test_a_look_adds_no_more_events_than_it_may(daemon, chain, monkeypatch):
    monkeypatch.setattr(module, "MAX_EVENTS", 4)
    found, done = looks(daemon, chain, ComparisonProgress(), 10)
    assert found == [1, 2, 3, 4]
    assert done == ComparisonProgress(10, (ChainSegment(10, 4),))
    again, _ = looks(daemon, chain, done, 10)
    assert again == [5, 6, 7, 8]


def test_of_a_run_that_goes_on_no_commit_is_read_twice_until_it_ends(daemon, chain):
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

    def look(done: ComparisonProgress, newest: int) -> tuple[int, ComparisonProgress]:
        read.clear()
        events, done = find_missing_events(daemon.instance, daemon.project.stream, link_at, newest, done)
        return len(events), done

    events, done = look(ComparisonProgress(0), 5)
    assert (events, read) == (1, [5, 4, 3, 2, 1])
    events, done = look(done, 10)
    assert (events, read) == (0, [10, 9, 8, 7, 6])
    assert done == ComparisonProgress(10, (ChainSegment(10, 1, (second.run_id, first.run_id)),))
    assert look(done, 10) == (0, done)
    assert read == []
    daemon.end(first, Status.CANCELED)
    events, done = look(done, 10)
    assert (events, read) == (7, [10, 9, 8, 7, 6, 5, 4, 3, 2])
    assert done == ComparisonProgress(10, (ChainSegment(10, 8, (second.run_id,)),))


def by_runs(chain: dict[int, CommitLink], *runs: dg.DagsterRun) -> None:
    """Have the commits made by these in turn."""
    for number, link in chain.items():
        chain[number] = replace(link, by=runs[number % len(runs)].run_id)


def test_a_runs_events_are_read_once_for_all_of_its_commits_and_no_more_than_it_takes(
    daemon, chain, monkeypatch
):
    run = daemon.run({PARTITION: A})
    by_runs(chain, run)
    for link in chain.values():
        daemon.tell(run, event_of(link, daemon.project.stream, A))
    daemon.end(run, Status.SUCCESS)
    pages, look = [], dg.DagsterInstance.get_records_for_run

    def noted(*given, **named):
        pages.append(look(*given, **named))
        return pages[-1]

    monkeypatch.setattr(dg.DagsterInstance, "get_records_for_run", noted)
    monkeypatch.setattr(told_module, "PAGE_SIZE", 4)
    assert looks(daemon, chain, ComparisonProgress(4), 10) == ([], ComparisonProgress(10))
    assert [len(page.records) for page in pages] == [4, 4]


def test_what_is_left_of_runs_side_by_side_is_one_stretch_when_one_of_them_ended(daemon, chain):
    first, second, third = (daemon.run({PARTITION: A}) for _ in range(3))
    by_runs(chain, first, second, third)
    _, done = looks(daemon, chain, ComparisonProgress(0), 10)
    daemon.end(first, Status.CANCELED)
    found, done = looks(daemon, chain, done, 10)
    assert found == [3, 6, 9]
    assert done == ComparisonProgress(10, (ChainSegment(10, None, (second.run_id, third.run_id)),))
    daemon.end(second, Status.CANCELED)
    daemon.end(third, Status.CANCELED)
    assert looks(daemon, chain, done, 10) == ([1, 2, 4, 5, 7, 8, 10], ComparisonProgress(10))


def test_a_run_that_never_ends_keeps_nothing_that_came_long_after_it(daemon, chain, monkeypatch):
    monkeypatch.setattr(commit_links, "_MAX_COMMITS_BETWEEN", 3)
    endless, between, last = (daemon.run({PARTITION: A}) for _ in range(3))
    chain |= {
        number: replace(link, by=(endless if number == 1 else last if number > 5 else between).run_id)
        for number, link in chain.items()
    }
    _, done = looks(daemon, chain, ComparisonProgress(0), 10)
    daemon.end(between, Status.CANCELED)
    found, done = looks(daemon, chain, done, 10)
    assert found == [2, 3, 4, 5]
    assert done.left == (ChainSegment(10, 5, (last.run_id,)), ChainSegment(1, None, (endless.run_id,)))


def test_the_cursor_of_a_version_that_knew_no_runs_is_read():
    assert msgspec.json.decode(b"[9,7]", type=ChainSegment) == ChainSegment(9, 7)


class Watch:
    """A clock that the test moves."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def timed_looks(daemon, chain, monkeypatch, read_seconds=0.0, found_seconds=0.0):
    """What each look tells of, where files and events take their time to be read."""
    watch, found, done = Watch(), [], ComparisonProgress(through=0)
    whole = module.commits_without_events

    def slow_untold(*given):
        watch.seconds += found_seconds
        return whole(*given)

    def slow_link(commit_id):
        watch.seconds += read_seconds
        return chain[commit_id]

    monkeypatch.setattr(module, "commits_without_events", slow_untold)
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


def test_a_look_ends_in_time_where_files_are_slow_and_the_next_goes_on(daemon, chain, monkeypatch):
    found, done = timed_looks(daemon, chain, monkeypatch, read_seconds=1.5)
    assert found == [[8, 9, 10], [5, 6, 7], [2, 3, 4], [1]]
    assert done == ComparisonProgress(10)


def test_a_look_ends_in_time_where_events_are_slow_and_the_next_goes_on(daemon, chain, monkeypatch):
    found, done = timed_looks(daemon, chain, monkeypatch, found_seconds=2.5)
    assert found == [[9, 10], [7, 8], [5, 6], [3, 4], [1, 2]]
    assert done == ComparisonProgress(10)


def test_how_far_it_came_survives_the_cursor():
    done = ComparisonProgress(10, (ChainSegment(9, 7, ("run",)), ChainSegment(3, None)))
    assert msgspec.json.decode(msgspec.json.encode(done), type=ComparisonProgress) == done
