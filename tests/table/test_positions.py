"""The positions file, and how an attempt's shards are merged into what stands."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from attempts import BEGINNING, LISTED_AT, STREAM, listing

from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.shards import Shard
from kinesis_assets.table.positions import (
    FORMAT,
    ShardPosition,
    StreamPositions,
    decode,
    encode,
    initial_positions,
    merge,
)


def shard_at(position=BEGINNING, parents=(), **rest):
    return ShardPosition(parents=parents, hash_range=("0", "9"), position=position, **rest)


def positions_of(**shards):
    return StreamPositions(
        format=FORMAT, identity=STREAM, token=7, previous=None, generation=0, batch_id=7, shards=shards
    )


def moved_to(shard, number, **rest):
    return msgspec.structs.replace(shard, position=Position.after(number), **rest)


def finished(shard):
    return msgspec.structs.replace(shard, finished=True)


# The file


def test_file_reads_back_as_the_same_positions():
    positions = StreamPositions(
        format=FORMAT,
        identity=STREAM,
        token=(1 << 62) - 1,
        previous=1 << 60,
        generation=12,
        batch_id=(1 << 62) - 3,
        shards={
            "a": shard_at(),
            "b": shard_at(Position.at_timestamp(datetime(2026, 1, 31, 12, 0, 0, 123000, UTC)), ("a",)),
            "c": shard_at(
                Position.after("4968" * 14),
                ("a", "b"),
                finished=True,
                tip_time=datetime(2026, 2, 1, tzinfo=UTC),
                last_arrival=datetime(2026, 2, 1, 0, 0, 0, 1000, UTC),
            ),
        },
    )
    assert decode(encode(positions)) == positions


@pytest.mark.parametrize("where", ["top", "identity", "shard", "position"])
def test_unknown_field_is_refused(where):
    content = msgspec.json.decode(encode(positions_of(a=shard_at())))
    shard = content["shards"]["a"]
    {"top": content, "identity": content["identity"], "shard": shard, "position": shard["position"]}[where][
        "later"
    ] = 1
    with pytest.raises(msgspec.ValidationError, match="later"):
        decode(msgspec.json.encode(content))


def test_newer_format_is_refused_by_its_number():
    content = msgspec.json.decode(encode(positions_of(a=shard_at())))
    content |= {"format": FORMAT + 1, "later": 1}
    with pytest.raises(
        msgspec.ValidationError, match=f"format {FORMAT + 1}, and this version reads up to {FORMAT}"
    ):
        decode(msgspec.json.encode(content))


def test_every_cut_of_the_file_is_refused():
    content = encode(positions_of(a=shard_at()))
    for length in range(len(content)):
        with pytest.raises(msgspec.MsgspecError):
            decode(content[:length])


# Shards that are listed later


def test_later_shards_begin_at_trim_horizon_and_known_ones_stay():
    known = shard_at(Position.after("5"))
    later = Shard("b", ("a",), ("0", "4"), "8")
    both = positions_of(a=known).with_listing(listing([Shard("a", (), ("0", "9"), "1"), later]))
    assert both.shards["a"].same_place(known)
    assert (both.shards["b"].position, both.shards["b"].parents) == (BEGINNING, ("a",))


def test_shards_no_longer_listed_stay():
    positions = positions_of(a=shard_at(Position.after("5"), finished=True))
    assert positions.with_listing(listing([])).shards.keys() == positions.shards.keys()


def test_first_shards_all_begin_at_the_given_start():
    start = Position.at_timestamp(datetime(2026, 1, 1, tzinfo=UTC))
    shards = [Shard(name, (), ("0", "9"), "1") for name in "ab"]
    starts = dict.fromkeys("ab", start)
    first = initial_positions(listing(shards), starts, wanted_from=LISTED_AT)
    assert {shard.position for shard in first.values()} == {start}


def test_child_waits_for_those_of_its_parents_that_are_unfinished():
    positions = positions_of(
        a=shard_at(finished=True), b=shard_at(), child=shard_at(parents=("a", "b", "trimmed away"))
    )
    assert positions.waits_for("child") == ("b",)


# Merging


def test_moved_shards_are_merged_and_the_others_stay():
    expected = positions_of(a=shard_at(), b=shard_at())
    moved = {"a": moved_to(expected.shards["a"], "5")}
    merged, conflicts = merge(expected, expected, moved)
    assert merged == {"a": moved["a"], "b": expected.shards["b"]}
    assert conflicts == {}


def test_shard_that_another_run_moved_is_a_conflict_and_the_others_are_merged():
    expected = positions_of(a=shard_at(), b=shard_at())
    current = positions_of(a=moved_to(expected.shards["a"], "4"), b=shard_at())
    moved = {name: moved_to(expected.shards[name], "5") for name in "ab"}
    merged, conflicts = merge(current, expected, moved)
    assert conflicts.keys() == {"a"}
    assert merged == {"a": current.shards["a"], "b": moved["b"]}


def test_conflict_names_the_shard_and_both_positions():
    expected = positions_of(a=shard_at(Position.after("3")))
    current = positions_of(a=shard_at(Position.after("4")))
    _, conflicts = merge(current, expected, {"a": shard_at(Position.after("5"))})
    assert "a: expected at AFTER_SEQUENCE_NUMBER:3" in str(conflicts["a"])
    assert "left it at AFTER_SEQUENCE_NUMBER:4" in str(conflicts["a"])


def test_shard_that_another_run_moved_to_the_same_place_is_a_conflict():
    expected = positions_of(a=shard_at())
    moved = {"a": moved_to(expected.shards["a"], "5")}
    _, conflicts = merge(positions_of(**moved), expected, moved)
    assert conflicts.keys() == {"a"}


def test_shard_that_another_run_finished_is_a_conflict():
    expected = positions_of(a=shard_at())
    current = positions_of(a=shard_at(finished=True))
    _, conflicts = merge(current, expected, {"a": moved_to(expected.shards["a"], "5")})
    assert conflicts.keys() == {"a"}


def test_shard_that_another_run_merely_saw_at_its_tip_is_no_conflict():
    expected = positions_of(a=shard_at())
    current = positions_of(a=shard_at(tip_time=datetime(2026, 2, 1, tzinfo=UTC)))
    moved = {"a": moved_to(expected.shards["a"], "5")}
    merged, conflicts = merge(current, expected, moved)
    assert conflicts == {}
    assert merged["a"].same_place(moved["a"])


def test_newer_tip_that_another_run_saw_is_kept():
    expected = positions_of(a=shard_at())
    newer = datetime(2026, 2, 1, tzinfo=UTC)
    moved = {"a": moved_to(expected.shards["a"], "5")}
    merged, _ = merge(positions_of(a=shard_at(tip_time=newer)), expected, moved)
    assert merged["a"].tip_time == newer


def test_shards_that_another_run_listed_meanwhile_stay():
    expected = positions_of(a=shard_at())
    current = positions_of(a=shard_at(), later=shard_at(parents=("a",)))
    merged, _ = merge(current, expected, {"a": moved_to(expected.shards["a"], "5")})
    assert merged.keys() == {"a", "later"}


def test_parent_and_child_of_one_run_are_merged_together():
    expected = positions_of(child=shard_at(parents=("a",)), a=shard_at())
    moved = {"child": moved_to(expected.shards["child"], "9"), "a": finished(expected.shards["a"])}
    merged, conflicts = merge(expected, expected, moved)
    assert (merged, conflicts) == (moved, {})


def test_child_and_grandchild_of_a_conflicting_parent_are_conflicts():
    expected = positions_of(
        a=shard_at(), child=shard_at(parents=("a",)), grandchild=shard_at(parents=("child",)), b=shard_at()
    )
    current = positions_of(**expected.shards | {"a": moved_to(expected.shards["a"], "4")})
    moved = {name: finished(shard) for name, shard in expected.shards.items()}
    merged, conflicts = merge(current, expected, moved)
    assert conflicts.keys() == {"a", "child", "grandchild"}
    assert merged == current.shards | {"b": moved["b"]}


def test_child_is_merged_when_another_run_finished_its_parent():
    expected = positions_of(a=shard_at(), child=shard_at(parents=("a",)))
    current = positions_of(a=finished(shard_at()), child=shard_at(parents=("a",)))
    moved = {"a": finished(expected.shards["a"]), "child": moved_to(expected.shards["child"], "9")}
    merged, conflicts = merge(current, expected, moved)
    assert conflicts.keys() == {"a"}
    assert merged["child"] == moved["child"]
