"""Up to when a shard is read completely, and what each listing of the shards changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.stream import Shard, StreamIdentity
from kinesis_assets.table.positions.positions import (
    FORMAT,
    Predecessor,
    Seek,
    initial_positions,
    next_positions,
)
from kinesis_assets.table.positions.range_stats import RangeStats
from support.attempts import BEGINNING, LISTED_AT, STREAM, listing, shards
from support.stored_positions import GAP, HOUR, listing_of, positions_of, shard_after, shard_at

# Up to when a shard is read completely


def test_a_shard_is_complete_up_to_the_later_of_its_tip_and_its_last_record():
    early, late = LISTED_AT - HOUR, LISTED_AT
    assert shard_at(tip_time=late, last_arrival=early).complete_until == late
    assert shard_at(tip_time=early, last_arrival=late).complete_until == late


@pytest.mark.parametrize("read", ["tip_time", "last_arrival"])
def test_the_start_of_a_shard_does_not_matter_after_a_read(read):
    shard = shard_at(wanted_from=LISTED_AT, **{read: LISTED_AT - HOUR})
    assert shard.complete_until == LISTED_AT - HOUR


def test_an_unread_shard_is_complete_up_to_its_start():
    assert shard_at(wanted_from=LISTED_AT).complete_until == LISTED_AT


def test_unread_records_are_safe_for_the_retention_after_that():
    shard = shard_at(tip_time=LISTED_AT, retention_hours=25)
    assert shard.safe_until == LISTED_AT + 25 * HOUR


@pytest.mark.parametrize("known", [{"tip_time": LISTED_AT}, {"retention_hours": 24}])
def test_safe_until_is_unknown_without_a_time_and_a_retention(known):
    assert shard_at(**known).safe_until is None


@pytest.mark.parametrize(
    ("shard", "unread"),
    [
        (shard_at(), True),
        (shard_at(tip_time=LISTED_AT), False),
        (shard_at(Position.at_timestamp(LISTED_AT)), False),
    ],
    ids=["at its start", "read to its tip", "from a time"],
)
def test_a_shard_is_unread_at_the_start_of_its_first_read_from_trim_horizon(shard, unread):
    assert shard.is_unread is unread


@pytest.mark.parametrize(
    ("known", "until"),
    [
        ({"retention_hours": 24}, None),
        ({"listed_open": LISTED_AT}, None),
        ({"listed_open": LISTED_AT, "retention_hours": 24}, LISTED_AT + 24 * HOUR),
        ({"tip_time": LISTED_AT, "retention_hours": 24}, LISTED_AT + 24 * HOUR),
        (
            {"listed_open": LISTED_AT - HOUR, "tip_time": LISTED_AT, "retention_hours": 24},
            LISTED_AT + 24 * HOUR,
        ),
        (
            {"listed_open": LISTED_AT, "tip_time": LISTED_AT - HOUR, "retention_hours": 24},
            LISTED_AT + 24 * HOUR,
        ),
    ],
)
def test_a_shard_is_listed_for_the_retention_after_it_was_read_or_open(known, until):
    assert shard_at(**known).listed_until == until


@pytest.mark.parametrize(("removed", "text"), [(0, ""), (3, ", 3 rows deleted")])
def test_a_seek_says_who_moved_the_shard_and_what_was_deleted(removed, text):
    seek = Seek(
        at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        by="ann",
        before=Position.after("7"),
        after=Position.after("5"),
        rows_removed=removed,
    )
    moved = "from AFTER_SEQUENCE_NUMBER:7 to AFTER_SEQUENCE_NUMBER:5"
    assert str(seek) == f"2026-01-02T03:04:05Z by ann: {moved}{text}"


def test_a_recorded_gap_changes_the_place_of_a_shard():
    assert not shard_at().same_place(shard_at(gaps=(GAP,)))


# Each listing of the shards


@pytest.mark.parametrize(
    ("stored", "listed", "kept"), [(168, 24, 24), (24, 168, 24), (24, 24, 24), (None, 48, 48)]
)
def test_the_lowest_listed_retention_is_kept(stored, listed, kept):
    positions = positions_of(a=shard_at(retention_hours=stored)).with_listing(listing_of("a", hours=listed))
    assert positions.shards["a"].retention_hours == kept


def test_new_shards_get_the_retention_of_the_listing():
    assert positions_of().with_listing(listing_of("a", hours=48)).shards["a"].retention_hours == 48


def test_a_new_shard_is_wanted_from_the_previous_listing():
    before = msgspec.structs.replace(positions_of(a=shard_at()), listed_at=LISTED_AT - 30 * HOUR)
    after = before.with_listing(listing_of("a", "b"))
    assert after.shards["b"].wanted_from == LISTED_AT - 30 * HOUR
    assert after.shards["a"].wanted_from is None


def test_the_time_of_the_last_listing_is_kept():
    positions = positions_of().with_listing(listing_of())
    assert positions.listed_at == LISTED_AT
    assert positions.with_listing(listing_of(at=LISTED_AT + HOUR)).listed_at == LISTED_AT + HOUR
    assert positions.with_listing(listing_of(at=LISTED_AT - HOUR)).listed_at == LISTED_AT


def test_a_shard_is_open_since_the_first_list_that_showed_it_open():
    closed = msgspec.structs.replace(shards("b")[0], closed=True)
    seen = replace(listing_of("a"), shards=[*shards("a"), closed])
    before = positions_of(a=shard_at(), b=shard_at())
    first = before.with_listing(seen)
    assert [shard.listed_open for shard in first.shards.values()] == [LISTED_AT, None]
    again = first.with_listing(listing_of("a", "b", at=LISTED_AT + HOUR))
    assert [shard.listed_open for shard in again.shards.values()] == [LISTED_AT, LISTED_AT + HOUR]


MARGIN = timedelta(seconds=1)
"""The resolution of the service's clock."""


def in_mode(at, *, on_demand):
    """Return a list at a time, of a stream in a capacity mode."""
    seen = listing_of("a", at=at)
    return replace(seen, summary=replace(seen.summary, on_demand=on_demand))


@pytest.mark.parametrize(
    ("on_demand", "after", "since"),
    [
        (False, HOUR, LISTED_AT + MARGIN),
        (False, 2 * HOUR, LISTED_AT + MARGIN),
        (False, 2 * HOUR + timedelta(seconds=1), LISTED_AT + 2 * HOUR + timedelta(seconds=1) + MARGIN),
        (False, timedelta(0), LISTED_AT + MARGIN),
        (False, -3 * HOUR, LISTED_AT + MARGIN),
        (True, HOUR, None),
        (None, HOUR, None),
    ],
    ids=["again", "two hours later", "later", "at the same time", "an earlier list", "on-demand", "unknown"],
)
def test_a_stream_is_provisioned_since_lists_showed_it_at_most_two_hours_apart(on_demand, after, since):
    positions = positions_of().with_listing(in_mode(LISTED_AT, on_demand=False))
    assert positions.provisioned_since == LISTED_AT + MARGIN
    last = positions.with_listing(in_mode(LISTED_AT + after, on_demand=on_demand))
    assert last.provisioned_since == since


def test_the_time_in_which_a_stream_was_provisioned_ends_with_the_last_list():
    last = in_mode(LISTED_AT + HOUR, on_demand=False)
    positions = positions_of().with_listing(in_mode(LISTED_AT, on_demand=False)).with_listing(last)
    assert positions.provisioned(last) == (LISTED_AT + MARGIN, LISTED_AT + HOUR + MARGIN)


def test_a_stream_whose_last_lists_differ_in_the_mode_may_have_been_on_demand():
    positions = positions_of().with_listing(in_mode(LISTED_AT, on_demand=False))
    assert positions.provisioned(in_mode(LISTED_AT, on_demand=True)) is None
    assert positions_of().provisioned(in_mode(LISTED_AT, on_demand=False)) is None


@pytest.mark.parametrize(
    ("start", "wanted_from"),
    [
        (BEGINNING, LISTED_AT),
        (Position.after("5"), STREAM.created),  # the sequence number does not contain an arrival time
        (Position.at_timestamp(LISTED_AT - 30 * HOUR), LISTED_AT - 30 * HOUR),
        (Position.at_timestamp(STREAM.created - HOUR), STREAM.created),
    ],
    ids=str,
)
def test_a_first_shard_is_wanted_from_its_start_or_the_previous_listing(start, wanted_from):
    (first,) = initial_positions(listing(shards("a")), {"a": start}, wanted_from=LISTED_AT).values()
    assert (first.position, first.wanted_from) == (start, wanted_from)


def test_a_first_shard_without_an_earlier_listing_has_no_time_up_to_which_it_is_complete():
    (first,) = initial_positions(listing(shards("a")), {"a": BEGINNING}, wanted_from=None).values()
    assert (first.wanted_from, first.complete_until) == (None, None)


# Recreated streams


def test_a_predecessor_keeps_the_positions_of_unfinished_shards():
    positions = positions_of(
        a=shard_after(5, finished=True), b=shard_at(Position.after("7", 2)), c=shard_at()
    )
    unfinished = {"b": Position.after("7", 2), "c": BEGINNING}
    assert positions.as_predecessors() == (Predecessor(STREAM, unfinished),)


def test_a_predecessor_keeps_the_gaps_of_all_shards():
    positions = positions_of(
        a=shard_after(5, finished=True, gaps=(GAP,)), b=shard_at(gaps=(GAP, GAP)), c=shard_at()
    )
    (predecessor,) = positions.as_predecessors()
    assert predecessor.gaps == {"a": (GAP,), "b": (GAP, GAP)}


def test_predecessors_are_ordered_oldest_first():
    oldest = Predecessor(StreamIdentity(STREAM.arn, STREAM.created - HOUR), {"a": BEGINNING})
    positions = msgspec.structs.replace(positions_of(a=shard_at()), predecessors=(oldest,))
    assert positions.as_predecessors() == (oldest, Predecessor(STREAM, {"a": BEGINNING}))


# Shards that are listed later


def test_shards_listed_later_start_at_trim_horizon_and_known_shards_are_unchanged():
    known = shard_after(5)
    later = Shard("b", ("a",), ("0", "4"), "8")
    both = positions_of(a=known).with_listing(listing([Shard("a", (), ("0", "9"), "1"), later]))
    assert both.shards["a"].same_place(known)
    assert (both.shards["b"].position, both.shards["b"].parents) == (BEGINNING, ("a",))


def test_shards_that_are_no_longer_listed_are_kept():
    positions = positions_of(a=shard_after(5, finished=True))
    assert positions.with_listing(listing([])).shards.keys() == positions.shards.keys()


def test_first_shards_start_at_the_given_position():
    start = Position.at_timestamp(datetime(2026, 1, 1, tzinfo=UTC))
    shards = [Shard(name, (), ("0", "9"), "1") for name in "ab"]
    starts = dict.fromkeys("ab", start)
    first = initial_positions(listing(shards), starts, wanted_from=LISTED_AT)
    assert {shard.position for shard in first.values()} == {start}


def test_a_child_waits_for_its_unfinished_parents():
    positions = positions_of(
        a=shard_at(finished=True), b=shard_at(), child=shard_at(parents=("a", "b", "trimmed away"))
    )
    assert positions.waits_for("child") == ("b",)


# The next positions


RECREATED = StreamIdentity(STREAM.arn, STREAM.created + HOUR)


def next_of(before, identity=STREAM, **rest):
    """Return the positions after others, of a shard b, by batch 9 and commit 8."""
    return next_positions(
        before,
        {"b": shard_after(3)},
        identity=identity,
        commit_id=8,
        batch_id=9,
        examined=4,
        listed_at=LISTED_AT,
        **rest,
    )


def test_the_next_positions_follow_the_newest_ones_and_keep_what_is_known_of_the_stream():
    older = (Predecessor(STREAM, {"x": BEGINNING}),)
    before = msgspec.structs.replace(
        positions_of(a=shard_at()),
        format=2,
        generation=5,
        predecessors=older,
        provisioned_since=LISTED_AT,
        adopted=True,
        by="ann",
    )
    found = next_of(before)
    assert (found.format, found.commit_id, found.previous, found.generation) == (FORMAT, 8, 7, 6)
    assert (found.batch_id, found.examined, found.listed_at) == (9, 4, LISTED_AT)
    assert (found.predecessors, found.provisioned_since) == (older, LISTED_AT)
    assert (found.adopted, found.by, found.added, found.shards.keys()) == (False, None, {}, {"b"})


def test_the_first_positions_follow_none():
    found = next_of(None, adopted=True)
    assert (found.previous, found.generation, found.predecessors, found.adopted) == (None, 0, (), True)


def test_the_first_positions_of_a_recreated_stream_follow_those_of_the_older_one():
    before = msgspec.structs.replace(positions_of(a=shard_at()), provisioned_since=LISTED_AT)
    found = next_of(before, RECREATED)
    assert (found.identity, found.previous, found.generation) == (RECREATED, 7, 1)
    assert found.predecessors == (Predecessor(STREAM, {"a": BEGINNING}),)
    assert found.provisioned_since is None


def test_ranges_without_rows_are_not_stored():
    assert next_of(None, added={"b": RangeStats.unread(BEGINNING)}).added == {}
