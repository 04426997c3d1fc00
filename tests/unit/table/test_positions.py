"""The positions file, what each listing of shards changes, and how shards of an attempt are merged."""

from __future__ import annotations

import random
from base64 import b64decode, b64encode
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pyarrow as pa
import pytest

from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.shards import Shard
from kinesis_assets.kinesis.stream import StreamIdentity
from kinesis_assets.table.merge import merge
from kinesis_assets.table.positions import (
    FORMAT,
    Predecessor,
    ShardPosition,
    StreamPositions,
    initial_positions,
)
from kinesis_assets.table.positions_file import HEADER_BYTES, decode, decode_header, encode
from support.attempts import BEGINNING, LISTED_AT, STREAM, listing, shards

HOUR = timedelta(hours=1)
GAP = Gap(
    after=Position.after("5", 3),
    since=LISTED_AT - 30 * HOUR,
    next_sequence_number="9" * 56,
    until=LISTED_AT - 24 * HOUR,
)


def shard_at(position=BEGINNING, parents=(), **rest):
    return ShardPosition(parents=parents, hash_range=("0", "9"), position=position, **rest)


def positions_of(**shards):
    return StreamPositions(
        format=FORMAT, identity=STREAM, commit_id=7, previous=None, generation=0, batch_id=7, shards=shards
    )


def moved_to(shard, number, **rest):
    return msgspec.structs.replace(shard, position=Position.after(number), **rest)


def finished(shard):
    return msgspec.structs.replace(shard, finished=True)


def listing_of(*names, hours=24, at=LISTED_AT):
    """A listing of shards of a stream with a retention, at a time."""
    seen = listing(shards(*names))
    return replace(seen, summary=replace(seen.summary, retention_hours=hours, service_time=at))


# The file


def test_positions_survive_a_round_trip_through_the_file():
    positions = StreamPositions(
        format=FORMAT,
        identity=STREAM,
        commit_id=(1 << 62) - 1,
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
                bytes_per_second=123_456,
                wanted_from=datetime(2026, 1, 1, tzinfo=UTC),
                retention_hours=8760,
                gaps=(GAP, msgspec.structs.replace(GAP, since=None, next_sequence_number=None)),
            ),
            "d": shard_at(Position.after("4968" * 14, 7)),
        },
        listed_at=LISTED_AT,
        predecessors=(Predecessor(STREAM, {"a": BEGINNING, "b": Position.after("6", 0)}),),
    )
    assert decode(encode(positions)) == positions


def plain(positions):
    """The content of a file in format 3."""
    return msgspec.json.encode(msgspec.structs.replace(positions, format=3))


def unpack(file):
    """The compressed document of a file, and the document around it."""
    around = msgspec.json.decode(file)
    size, shards = around["size"], b64decode(around["shards"])
    return msgspec.json.decode(pa.decompress(shards, size, codec="zstd", asbytes=True)), around


def pack(whole, around):
    whole = msgspec.json.encode(whole)
    shards = b64encode(pa.compress(whole, codec="zstd", asbytes=True)).decode()
    return msgspec.json.encode(around | {"size": len(whole), "shards": shards})


def test_a_file_of_format_3_is_read():
    positions = positions_of(a=shard_at(), b=shard_at(Position.after("4968" * 14, 7)))
    assert decode(plain(positions)) == msgspec.structs.replace(positions, format=3)


def test_a_file_of_format_4_is_read():
    positions = msgspec.structs.replace(positions_of(a=shard_at(), b=shard_at(Position.after("7"))), format=4)
    whole, _ = unpack(encode(positions))
    assert "bytes_per_second" not in whole["shards"]["b"]
    assert decode(encode(positions)) == positions


@pytest.mark.parametrize("where", ["top", "identity", "shard", "position"])
@pytest.mark.parametrize("is_packed", [True, False])
def test_an_unknown_field_is_refused(where, is_packed):
    content = encode(positions_of(a=shard_at())) if is_packed else plain(positions_of(a=shard_at()))
    whole, around = unpack(content) if is_packed else (msgspec.json.decode(content), None)
    shard = whole["shards"]["a"]
    {"top": whole, "identity": whole["identity"], "shard": shard, "position": shard["position"]}[where][
        "later"
    ] = 1
    with pytest.raises(msgspec.ValidationError, match="later"):
        decode(pack(whole, around) if is_packed else msgspec.json.encode(whole))


def test_a_newer_format_is_refused_by_its_number():
    content = msgspec.json.decode(encode(positions_of(a=shard_at())))
    content |= {"format": FORMAT + 1, "later": 1}
    with pytest.raises(
        msgspec.ValidationError, match=f"format is {FORMAT + 1}; this release reads formats up to {FORMAT}"
    ):
        decode(msgspec.json.encode(content))


def test_a_release_without_compression_can_read_the_format_number():
    """Such a release parses the whole file as JSON, or the part before the shards."""
    content = encode(positions_of(a=shard_at()))
    assert msgspec.json.decode(content)["format"] == FORMAT
    assert msgspec.json.decode(content[: content.index(b',"shards":')] + b"}")["format"] == FORMAT


def test_a_header_that_differs_from_the_compressed_document_is_refused():
    whole, around = unpack(encode(positions_of(a=shard_at())))
    with pytest.raises(msgspec.ValidationError, match="header"):
        decode(pack(whole, around | {"token": 8}))


@pytest.mark.parametrize(
    "damage",
    [
        *({"size": size} for size in (-1, 0, 3, 10_000, 1 << 62, 1 << 70)),
        *({"shards": shards} for shards in ("", "AAAA", "no")),
    ],
)
def test_content_that_cannot_be_decompressed_is_refused(damage):
    content = msgspec.json.decode(encode(positions_of(a=shard_at())))
    with pytest.raises(msgspec.MsgspecError):
        decode(msgspec.json.encode(content | damage))


@pytest.mark.parametrize("write", [encode, plain])
@pytest.mark.parametrize("indent", [0, 1])
def test_the_header_is_decoded_from_the_first_bytes(write, indent):
    positions = positions_of(**{f"shardId-{number:012}": shard_of(number) for number in range(1000)})
    content = msgspec.json.format(write(positions), indent=indent)
    assert len(content) > 10 * HEADER_BYTES
    found = decode_header(content[:HEADER_BYTES])
    assert found == decode(content).header


def test_an_incomplete_header_is_decoded_as_none():
    content = encode(positions_of(a=shard_at()))
    assert decode_header(content[: content.index(b'"shards"')]) is None


def test_a_header_of_a_newer_format_is_refused():
    content = encode(msgspec.structs.replace(positions_of(a=shard_at()), format=FORMAT + 1))
    with pytest.raises(msgspec.ValidationError, match=f"reads formats up to {FORMAT}"):
        decode_header(content)


def shard_of(number):
    """A shard of a large stream, with random digits."""
    digits = str(random.Random(number).randrange(10**95, 10**96))
    return ShardPosition(
        parents=("shardId-000000000000",),
        hash_range=(digits[:39], digits[1:40]),
        position=Position.after(f"4{digits[41:]}"),
        tip_time=LISTED_AT,
        last_arrival=LISTED_AT + timedelta(milliseconds=number),
        bytes_per_second=int(digits[:6]),
        wanted_from=LISTED_AT,
        retention_hours=24,
    )


def test_a_shard_takes_less_than_120_bytes():
    """Every commit writes all shards."""
    one, many = (
        encode(positions_of(**{f"shardId-{each:012}": shard_of(each) for each in range(count)}))
        for count in (1, 1001)
    )
    assert (len(many) - len(one)) / 1000 < 120


def test_a_file_of_format_1_is_read_without_the_fields_of_later_formats():
    positions = decode(OF_FORMAT_1)
    a, b, c = (positions.shards[name] for name in "abc")
    assert (positions.format, positions.identity, positions.generation) == (1, STREAM, 12)
    assert (positions.listed_at, positions.predecessors) == (None, ())
    assert a == ShardPosition(
        parents=(),
        hash_range=("0", "9"),
        position=Position.after("5"),
        finished=True,
        tip_time=datetime(2026, 2, 1, tzinfo=UTC),
        last_arrival=datetime(2026, 1, 31, 23, 59, 59, 1000, UTC),
    )
    assert b == shard_at(Position.at_timestamp(datetime(2026, 1, 31, 12, tzinfo=UTC)))
    assert c == shard_at(parents=("a", "b"))
    assert (c.complete_until, c.safe_until, c.gaps) == (None, None, ())


def test_a_truncated_file_is_refused():
    content = encode(positions_of(a=shard_at()))
    for length in range(len(content)):
        with pytest.raises(msgspec.MsgspecError):
            decode(content[:length])


OF_FORMAT_1 = b"""{
 "format": 1,
 "identity": {
  "arn": "arn:aws:kinesis:us-east-1:000000000000:stream/orders",
  "created": "2026-01-01T00:00:00Z"
 },
 "token": 1882475050937511755,
 "previous": 1882475050916054048,
 "generation": 12,
 "batch_id": 1882475050928526399,
 "shards": {
  "a": {
   "parents": [],
   "hash_range": ["0", "9"],
   "position": {"kind": "AFTER_SEQUENCE_NUMBER", "sequence_number": "5"},
   "finished": true,
   "tip_time": "2026-02-01T00:00:00Z",
   "last_arrival": "2026-01-31T23:59:59.001000Z"
  },
  "b": {
   "parents": [],
   "hash_range": ["0", "9"],
   "position": {"kind": "AT_TIMESTAMP", "timestamp": "2026-01-31T12:00:00Z"}
  },
  "c": {"parents": ["a", "b"], "hash_range": ["0", "9"], "position": {"kind": "TRIM_HORIZON"}}
 }
}"""


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
        a=shard_at(Position.after("5"), finished=True), b=shard_at(Position.after("7", 2)), c=shard_at()
    )
    unfinished = {"b": Position.after("7", 2), "c": BEGINNING}
    assert positions.as_predecessors() == (Predecessor(STREAM, unfinished),)


def test_a_predecessor_keeps_the_gaps_of_all_shards():
    positions = positions_of(
        a=shard_at(Position.after("5"), finished=True, gaps=(GAP,)), b=shard_at(gaps=(GAP, GAP)), c=shard_at()
    )
    (predecessor,) = positions.as_predecessors()
    assert predecessor.gaps == {"a": (GAP,), "b": (GAP, GAP)}


def test_predecessors_are_ordered_oldest_first():
    oldest = Predecessor(StreamIdentity(STREAM.arn, STREAM.created - HOUR), {"a": BEGINNING})
    positions = msgspec.structs.replace(positions_of(a=shard_at()), predecessors=(oldest,))
    assert positions.as_predecessors() == (oldest, Predecessor(STREAM, {"a": BEGINNING}))


# Shards that are listed later


def test_shards_listed_later_start_at_trim_horizon_and_known_shards_are_unchanged():
    known = shard_at(Position.after("5"))
    later = Shard("b", ("a",), ("0", "4"), "8")
    both = positions_of(a=known).with_listing(listing([Shard("a", (), ("0", "9"), "1"), later]))
    assert both.shards["a"].same_place(known)
    assert (both.shards["b"].position, both.shards["b"].parents) == (BEGINNING, ("a",))


def test_shards_that_are_no_longer_listed_are_kept():
    positions = positions_of(a=shard_at(Position.after("5"), finished=True))
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


# Merging


def test_moved_shards_are_merged_and_the_others_are_unchanged():
    expected = positions_of(a=shard_at(), b=shard_at())
    moved = {"a": moved_to(expected.shards["a"], "5")}
    merged, conflicts = merge(expected, expected, moved, {})
    assert merged == {"a": moved["a"], "b": expected.shards["b"]}
    assert conflicts == {}


def test_only_a_shard_that_another_run_moved_is_a_conflict():
    expected = positions_of(a=shard_at(), b=shard_at())
    current = positions_of(a=moved_to(expected.shards["a"], "4"), b=shard_at())
    moved = {name: moved_to(expected.shards[name], "5") for name in "ab"}
    merged, conflicts = merge(current, expected, moved, {})
    assert conflicts.keys() == {"a"}
    assert merged == {"a": current.shards["a"], "b": moved["b"]}


def test_a_conflict_names_the_shard_and_both_positions():
    expected = positions_of(a=shard_at(Position.after("3")))
    current = positions_of(a=shard_at(Position.after("4")))
    _, conflicts = merge(current, expected, {"a": shard_at(Position.after("5"))}, {})
    assert "a: expected at AFTER_SEQUENCE_NUMBER:3" in str(conflicts["a"])
    assert "left it at AFTER_SEQUENCE_NUMBER:4" in str(conflicts["a"])


def test_a_shard_that_another_run_moved_to_the_same_position_is_a_conflict():
    expected = positions_of(a=shard_at())
    moved = {"a": moved_to(expected.shards["a"], "5")}
    _, conflicts = merge(positions_of(**moved), expected, moved, {})
    assert conflicts.keys() == {"a"}


def test_a_shard_that_another_run_finished_is_a_conflict():
    expected = positions_of(a=shard_at())
    current = positions_of(a=shard_at(finished=True))
    _, conflicts = merge(current, expected, {"a": moved_to(expected.shards["a"], "5")}, {})
    assert conflicts.keys() == {"a"}


def test_a_shard_that_another_run_only_read_at_its_tip_is_not_a_conflict():
    expected = positions_of(a=shard_at())
    current = positions_of(a=shard_at(tip_time=datetime(2026, 2, 1, tzinfo=UTC)))
    moved = {"a": moved_to(expected.shards["a"], "5")}
    merged, conflicts = merge(current, expected, moved, {})
    assert conflicts == {}
    assert merged["a"].same_place(moved["a"])


def test_a_newer_tip_time_of_another_run_is_kept():
    expected = positions_of(a=shard_at())
    newer = datetime(2026, 2, 1, tzinfo=UTC)
    moved = {"a": moved_to(expected.shards["a"], "5")}
    merged, _ = merge(positions_of(a=shard_at(tip_time=newer)), expected, moved, {})
    assert merged["a"].tip_time == newer


def test_shards_that_another_run_listed_are_kept():
    expected = positions_of(a=shard_at())
    current = positions_of(a=shard_at(), later=shard_at(parents=("a",)))
    merged, _ = merge(current, expected, {"a": moved_to(expected.shards["a"], "5")}, {})
    assert merged.keys() == {"a", "later"}


def test_a_parent_and_its_child_of_one_run_are_merged():
    expected = positions_of(child=shard_at(parents=("a",)), a=shard_at())
    moved = {"child": moved_to(expected.shards["child"], "9"), "a": finished(expected.shards["a"])}
    merged, conflicts = merge(expected, expected, moved, {})
    assert (merged, conflicts) == (moved, {})


def test_a_child_and_grandchild_of_a_conflicting_parent_are_conflicts():
    expected = positions_of(
        a=shard_at(), child=shard_at(parents=("a",)), grandchild=shard_at(parents=("child",)), b=shard_at()
    )
    current = positions_of(**expected.shards | {"a": moved_to(expected.shards["a"], "4")})
    moved = {name: finished(shard) for name, shard in expected.shards.items()}
    merged, conflicts = merge(current, expected, moved, {})
    assert conflicts.keys() == {"a", "child", "grandchild"}
    assert merged == current.shards | {"b": moved["b"]}


def test_a_child_is_merged_if_another_run_finished_its_parent():
    expected = positions_of(a=shard_at(), child=shard_at(parents=("a",)))
    current = positions_of(a=finished(shard_at()), child=shard_at(parents=("a",)))
    moved = {"a": finished(expected.shards["a"]), "child": moved_to(expected.shards["child"], "9")}
    merged, conflicts = merge(current, expected, moved, {})
    assert conflicts.keys() == {"a"}
    assert merged["child"] == moved["child"]
