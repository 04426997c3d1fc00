"""How the shards of an attempt are merged with the current positions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.table.positions.merge import last_moved_by, merge
from support.mentions import assert_mentions
from support.stored_positions import finished, moved_to, positions_of, shard_after, shard_at


def test_moved_shards_are_merged_and_the_others_are_unchanged():
    expected = positions_of(a=shard_at(), b=shard_at())
    moved = {"a": moved_to(expected.shards["a"], "5")}
    merged, conflicts = merge(expected, expected, moved, ())
    assert merged == {"a": moved["a"], "b": expected.shards["b"]}
    assert conflicts == {}


def test_only_a_shard_that_another_run_moved_is_a_conflict():
    expected = positions_of(a=shard_at(), b=shard_at())
    current = positions_of(a=moved_to(expected.shards["a"], "4"), b=shard_at())
    moved = {name: moved_to(expected.shards[name], "5") for name in "ab"}
    merged, conflicts = merge(current, expected, moved, ())
    assert conflicts.keys() == {"a"}
    assert merged == {"a": current.shards["a"], "b": moved["b"]}


def test_a_conflict_names_the_shard_both_positions_and_the_commit_that_moved_it():
    expected = positions_of(a=shard_after(3))
    current = positions_of(a=shard_after(4))
    _, conflicts = merge(current, expected, {"a": shard_after(5)}, [current, expected])
    batch = f"batch {current.batch_id}"
    assert_mentions(str(conflicts["a"]), "a: ", "AFTER_SEQUENCE_NUMBER:3", batch, "AFTER_SEQUENCE_NUMBER:4")


def test_no_history_is_read_without_a_conflict():
    expected = positions_of(a=shard_at())
    history = iter([expected])
    merge(expected, expected, {"a": moved_to(expected.shards["a"], "5")}, history)
    assert list(history) == [expected]


def test_a_shard_that_another_run_moved_to_the_same_position_is_a_conflict():
    expected = positions_of(a=shard_at())
    moved = {"a": moved_to(expected.shards["a"], "5")}
    _, conflicts = merge(positions_of(**moved), expected, moved, ())
    assert conflicts.keys() == {"a"}


def test_a_shard_that_another_run_finished_is_a_conflict():
    expected = positions_of(a=shard_at())
    current = positions_of(a=shard_at(finished=True))
    _, conflicts = merge(current, expected, {"a": moved_to(expected.shards["a"], "5")}, ())
    assert conflicts.keys() == {"a"}


def test_a_shard_that_another_run_only_read_at_its_tip_is_not_a_conflict():
    expected = positions_of(a=shard_at())
    current = positions_of(a=shard_at(tip_time=datetime(2026, 2, 1, tzinfo=UTC)))
    moved = {"a": moved_to(expected.shards["a"], "5")}
    merged, conflicts = merge(current, expected, moved, ())
    assert conflicts == {}
    assert merged["a"].same_place(moved["a"])


def test_a_newer_tip_time_of_another_run_is_kept():
    expected = positions_of(a=shard_at())
    newer = datetime(2026, 2, 1, tzinfo=UTC)
    moved = {"a": moved_to(expected.shards["a"], "5")}
    merged, _ = merge(positions_of(a=shard_at(tip_time=newer)), expected, moved, ())
    assert merged["a"].tip_time == newer


def test_an_older_tip_time_of_another_run_is_not_kept():
    older, newer = (datetime(2026, 2, day, tzinfo=UTC) for day in (1, 2))
    expected = positions_of(a=shard_at())
    moved = {"a": moved_to(expected.shards["a"], "5", tip_time=newer)}
    merged, _ = merge(positions_of(a=shard_at(tip_time=older)), expected, moved, ())
    assert merged["a"].tip_time == newer


@pytest.mark.parametrize(
    ("expected", "current", "moved", "kept"),
    [(24, 24, 48, 48), (48, 24, 48, 24), (24, 48, 24, 24), (None, 24, None, 24)],
    ids=["longer", "shortened by another", "lengthened by another", "unknown before"],
)
def test_a_retention_that_another_run_has_seen_shortens_the_time_to_loss(expected, current, moved, kept):
    before = positions_of(a=shard_at(retention_hours=expected))
    now = positions_of(a=shard_at(retention_hours=current))
    merged, _ = merge(now, before, {"a": moved_to(shard_at(), "5", retention_hours=moved)}, ())
    assert merged["a"].retention_hours == kept


def test_the_commit_that_moved_a_shard_to_its_position_is_found():
    first = positions_of(a=shard_after(1), b=shard_after(1))
    second = positions_of(a=shard_after(2), b=shard_after(1))
    third = positions_of(a=shard_after(2), b=shard_after(1), listed_later=shard_at())
    history = [third, second, first]
    assert last_moved_by(history, ["a", "b", "listed_later"]) == {"a": second, "listed_later": third}


def test_no_more_of_the_history_is_read_than_needed():
    history = iter([positions_of(a=shard_after(number)) for number in (3, 2, 1)])
    assert last_moved_by(history, ["a"]).keys() == {"a"}
    assert len(list(history)) == 1


def test_shards_that_another_run_listed_are_kept():
    expected = positions_of(a=shard_at())
    current = positions_of(a=shard_at(), later=shard_at(parents=("a",)))
    merged, _ = merge(current, expected, {"a": moved_to(expected.shards["a"], "5")}, ())
    assert merged.keys() == {"a", "later"}


def test_a_parent_and_its_child_of_one_run_are_merged():
    expected = positions_of(child=shard_at(parents=("a",)), a=shard_at())
    moved = {"child": moved_to(expected.shards["child"], "9"), "a": finished(expected.shards["a"])}
    merged, conflicts = merge(expected, expected, moved, ())
    assert (merged, conflicts) == (moved, {})


def test_a_child_and_grandchild_of_a_conflicting_parent_are_conflicts():
    expected = positions_of(
        a=shard_at(), child=shard_at(parents=("a",)), grandchild=shard_at(parents=("child",)), b=shard_at()
    )
    current = positions_of(**expected.shards | {"a": moved_to(expected.shards["a"], "4")})
    moved = {name: finished(shard) for name, shard in expected.shards.items()}
    merged, conflicts = merge(current, expected, moved, ())
    assert conflicts.keys() == {"a", "child", "grandchild"}
    assert merged == current.shards | {"b": moved["b"]}


def test_a_child_is_merged_if_another_run_finished_its_parent():
    expected = positions_of(a=shard_at(), child=shard_at(parents=("a",)))
    current = positions_of(a=finished(shard_at()), child=shard_at(parents=("a",)))
    moved = {"a": finished(expected.shards["a"]), "child": moved_to(expected.shards["child"], "9")}
    merged, conflicts = merge(current, expected, moved, ())
    assert conflicts.keys() == {"a"}
    assert merged["child"] == moved["child"]


def test_the_commits_that_moved_shards_are_named_up_to_a_file_that_cannot_be_read():
    older = positions_of(a=shard_at(), b=shard_at())
    newer = positions_of(a=shard_after(1), b=shard_at())

    def history():
        yield newer
        yield older
        raise PositionsUnreadable("table", "it was pruned")

    assert last_moved_by(history(), ["a", "b"]) == {"a": newer}
