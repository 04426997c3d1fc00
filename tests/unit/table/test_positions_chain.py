"""Chains of positions files: changes since a base, archive segments, and reading them."""

from __future__ import annotations

from base64 import b64decode
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.data.busy_stream import BusyStream
from benchmarks.sections.chain import MAX_BYTES, THREE_DAYS, mean_bytes
from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table import positions_archive, positions_file
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.number_columns import pack, unpack
from kinesis_assets.table.position_changes import apply, changes
from kinesis_assets.table.positions import FORMAT, ShardPosition, StreamPositions
from kinesis_assets.table.positions_archive import Segment
from kinesis_assets.table.positions_chain import ChainPolicy, PositionsChain
from kinesis_assets.table.range_stats import RangeStats
from kinesis_assets.table.table import PositionedTable
from support.attempts import (
    BEGINNING,
    LISTED_AT,
    STREAM,
)

SMALL = ChainPolicy(max_files=3, min_repeated=4, min_archived=2)


def shard_at(position=BEGINNING, **rest):
    return ShardPosition(parents=(), hash_range=("0", "9"), position=position, **rest)


def positions_of(named, commit_id=7, previous=None, **rest):
    return StreamPositions(
        format=FORMAT,
        identity=STREAM,
        commit_id=commit_id,
        previous=previous,
        generation=0 if previous is None else 1,
        batch_id=commit_id,
        shards=named,
        **rest,
    )


# Columns


@given(st.lists(st.integers(-(10**129), 10**129), max_size=20))
def test_a_column_survives_a_round_trip(numbers):
    assert unpack(pack(numbers), len(numbers)) == numbers


def test_a_column_of_another_length_is_refused():
    with pytest.raises(msgspec.ValidationError, match="a column has 2 bytes instead of 3 x 1"):
        unpack(pack([1, 2]), 3)


# Changes

TIMES = st.none() | st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
NUMBERS = st.integers(0, 10**129 - 1).map(str)
POSITIONS = (
    st.just(BEGINNING)
    | st.builds(Position.after, NUMBERS, st.none() | st.integers(0, 1 << 40))
    | TIMES.filter(bool).map(Position.at_timestamp)
)
SHARDS = st.builds(
    shard_at,
    POSITIONS,
    finished=st.booleans(),
    tip_time=TIMES,
    last_arrival=TIMES,
    bytes_per_second=st.none() | st.integers(0, 10**7),
    retention_hours=st.none() | st.integers(24, 8760),
)
STATS = st.builds(
    RangeStats,
    start=POSITIONS,
    through=POSITIONS,
    first_sequence_number=NUMBERS,
    last_sequence_number=NUMBERS,
    rows=st.integers(1, 10**9),
    bytes=st.integers(0, 10**12),
    checksum=st.integers(0, 1 << 63),
)
NAMES = st.sampled_from("abcdef")


@given(st.dictionaries(NAMES, SHARDS), st.dictionaries(NAMES, SHARDS), st.dictionaries(NAMES, STATS))
def test_changes_applied_to_their_base_give_the_new_positions(before, now, added):
    assert apply(before, changes(before, now, added)) == (now, added)


@given(st.dictionaries(NAMES, SHARDS, min_size=1), st.data())
def test_changes_of_read_shards_are_stored_in_columns_only(before, data):
    now, added = {}, {}
    for shard_id, shard in before.items():
        last = data.draw(st.integers(10**55, 10**56))
        now[shard_id] = msgspec.structs.replace(
            shard, position=Position.after(str(last)), tip_time=LISTED_AT, last_arrival=LISTED_AT
        )
        added[shard_id] = RangeStats(
            start=Position.after(str(last - 9)),
            through=now[shard_id].position,
            first_sequence_number=str(last - 5),
            last_sequence_number=str(last),
            rows=5,
            bytes=500,
            checksum=1 << 33,
        )
    changed = changes(before, now, added)
    assert (changed.whole, changed.added_whole) == ({}, {})
    assert apply(before, changed) == (now, added)


def test_an_unchanged_shard_takes_no_space():
    named = {f"{number}": shard_at(Position.after(str(number))) for number in range(1000)}
    same = {shard_id: msgspec.structs.replace(shard) for shard_id, shard in named.items()}
    assert len(msgspec.msgpack.encode(changes(named, same, {}))) < 20


def test_changes_of_another_base_are_refused():
    changed = changes(
        {"a": shard_at(), "b": shard_at()}, {"a": shard_at(), "b": shard_at(Position.after("5"))}, {}
    )
    with pytest.raises(msgspec.ValidationError, match="do not match its base"):
        apply({"a": shard_at()}, changed)


# Files


def with_base():
    base = positions_of({"a": shard_at(), "b": shard_at(Position.after("4"))}, commit_id=6)
    now = positions_of(
        base.shards | {"b": shard_at(Position.after("9"))},
        commit_id=7,
        previous=6,
        by="me",
        listed_at=LISTED_AT,
    )
    content = positions_file.encode_changes(positions_file.StoredPositions(now, base=6), base)
    return base, now, content


def test_positions_survive_a_round_trip_through_a_file_with_a_base():
    base, now, content = with_base()
    assert positions_file.read(content, {6: base}.__getitem__).positions == now


def test_the_header_of_a_file_contains_its_base():
    _, _, content = with_base()
    assert positions_file.decode_header(content[: positions_file.HEADER_BYTES]).base == 6


def test_a_truncated_file_with_a_base_is_refused():
    base, _, content = with_base()
    for length in range(len(content)):
        with pytest.raises(msgspec.MsgspecError):
            positions_file.read(content[:length], {6: base}.__getitem__)


def test_a_damaged_number_in_a_file_with_a_base_is_refused():
    base, _, content = with_base()
    around = msgspec.json.decode(content)
    whole = positions_file.decompress(b64decode(around["shards"]), around["size"])
    for place in range(len(whole)):
        damaged = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        packed = msgspec.json.encode(around | {"shards": positions_file.compress(damaged)})
        with pytest.raises(msgspec.ValidationError, match="damaged"):
            positions_file.read(packed, {6: base}.__getitem__)


def test_a_base_of_another_stream_is_refused():
    base, _, content = with_base()
    other = msgspec.structs.replace(base, identity=msgspec.structs.replace(STREAM, arn=f"{STREAM.arn}-2"))
    with pytest.raises(msgspec.ValidationError, match="its base is of another stream"):
        positions_file.read(content, {6: other}.__getitem__)


def test_a_release_without_bases_can_read_the_format_number():
    """Such a release decodes the whole file as JSON, or the part before the shards."""
    _, _, content = with_base()
    assert msgspec.json.decode(content)["format"] == FORMAT
    assert msgspec.json.decode(content[: content.index(b',"shards":')] + b"}")["format"] == FORMAT


def test_a_segment_survives_a_round_trip():
    segment = Segment(STREAM, 9, (3, 5), {"a": shard_at(Position.after("7"), finished=True)})
    assert positions_archive.decode(positions_archive.encode(segment)) == segment


def test_a_segment_of_a_newer_format_is_refused_by_its_number():
    content = positions_archive.encode(Segment(STREAM, 9, (), {}))
    newer = msgspec.json.encode(msgspec.json.decode(content) | {"format": FORMAT + 1, "later": 1})
    with pytest.raises(
        msgspec.ValidationError, match=f"format is {FORMAT + 1}; this release reads formats up to"
    ):
        positions_archive.decode(newer)


# The chain, without a table


class Bench:
    """A chain of positions files in a folder."""

    def __init__(self, folder, policy):
        self.folder, self.policy = folder, policy
        self.newest = None
        self.chain = self.another()

    def another(self):
        """The chain as another process opens it."""
        files = PositionedTable(str(self.folder)).files
        return PositionsChain("the table", lambda: files, self.policy)

    def follow(self, named, retired=(), **rest):
        """Write positions that follow the newest."""
        before = self.newest
        self.newest = positions_of(named, new_id(), before and before.commit_id, **rest)
        self.chain.write(self.newest, retired)
        return self.newest

    def read(self):
        """Read the newest positions in a new process; return the number of files read, and the positions."""
        chain = self.another()
        found = chain.positions_at(self.newest.commit_id)
        return chain.files_read, found

    def size(self, commit_id):
        return (self.folder / f"_kinesis/positions/{commit_id}.json").stat().st_size

    def header(self, commit_id):
        return self.another().header_at(commit_id)

    @property
    def bytes(self):
        return sum(path.stat().st_size for path in self.folder.rglob("*.json"))

    @property
    def segments(self):
        return sorted(self.folder.glob("_kinesis/archive/*.json"))


@pytest.fixture
def chain_of(tmp_path):
    return lambda policy=ChainPolicy(): Bench(tmp_path / "table", policy)


@pytest.mark.parametrize("moving", [1, 10, 100])
def test_commits_each_second_on_a_thousand_shards_take_at_most_ten_gigabytes_in_three_days(moving):
    assert mean_bytes(1000, moving) * THREE_DAYS < MAX_BYTES


def test_positions_of_many_moving_shards_are_read_from_two_files(chain_of):
    stream, bench = BusyStream(300), chain_of()
    for _ in range(9):
        added = stream.advance(300)
        bench.follow(stream.shards, added=added)
        files, found = bench.read()
        assert found == bench.newest
        assert files <= 2


def moved(named, shard_id, number, **rest):
    return named | {
        shard_id: msgspec.structs.replace(named[shard_id], position=Position.after(str(number)), **rest)
    }


def test_the_newest_positions_are_read_from_two_files_after_many_commits(chain_of):
    bench = chain_of()
    named = {str(shard): shard_at() for shard in range(10)}
    for number in range(150):
        bench.follow(named := moved(named, str(number % 10), number))
        files, found = bench.read()
        assert found == bench.newest
        assert files <= 2


def test_a_process_reads_each_file_once(chain_of):
    bench = chain_of()
    for number in range(5):
        bench.follow({"a": shard_at(Position.after(str(number)))})
    chain = bench.another()
    for _ in range(3):
        chain.positions_at(bench.newest.commit_id)
        list(chain.commits_before(bench.newest))
    assert chain.files_read == 2


def test_earlier_commits_are_read_from_few_files(chain_of):
    bench = chain_of(ChainPolicy(max_files=9))
    made = [bench.follow({"a": shard_at(Position.after(str(number)))}) for number in range(40)]
    chain = bench.another()
    found = list(chain.commits_before(bench.newest))
    assert found == [(each.commit_id, each.batch_id) for each in reversed(made[:-1])]
    assert chain.files_read == 8  # four bases, and the last file before each


def test_with_few_moving_shards_a_base_is_written_when_repeated_changes_cost_as_much(chain_of):
    bench = chain_of(ChainPolicy(min_repeated=20))
    named = {str(shard): shard_at() for shard in range(20)}
    made = [bench.follow(named := moved(named, str(number % 20), number)) for number in range(30)]
    bases = [number for number, each in enumerate(made) if bench.header(each.commit_id).base is None]
    assert bases[:2] == [0, 7]  # 0 + 1 + ... + 6 shards were repeated


def test_with_all_shards_moving_bases_are_rare(chain_of):
    bench = chain_of(ChainPolicy(max_files=9, min_repeated=0))
    made = [
        bench.follow({str(shard): shard_at(Position.after(str(number))) for shard in range(20)})
        for number in range(21)
    ]
    assert [number for number, each in enumerate(made) if bench.header(each.commit_id).base is None] == [
        0,
        10,
        20,
    ]


@pytest.mark.parametrize("has_base", [True, False])
def test_a_file_of_another_commit_is_refused_and_not_cached(chain_of, has_base):
    bench = chain_of(ChainPolicy() if has_base else ChainPolicy(max_files=0))
    first, second, third = (bench.follow({"a": shard_at(Position.after(str(number)))}) for number in range(3))
    path, other = (bench.folder / f"_kinesis/positions/{each.commit_id}.json" for each in (third, second))
    right = path.read_bytes()
    path.write_bytes(other.read_bytes())
    chain = bench.another()
    for read in (chain.positions_at, chain.header_at):
        with pytest.raises(
            PositionsUnreadable, match=rf"{third.commit_id}.*{second.commit_id}.*Restore the original file"
        ):
            read(third.commit_id)
    path.write_bytes(right)
    assert chain.positions_at(third.commit_id) == third
    assert chain.positions_at(first.commit_id) == first


def test_an_error_names_the_missing_base(chain_of):
    bench = chain_of()
    base, _, newest = (bench.follow({"a": shard_at(Position.after(str(number)))}) for number in range(3))
    (bench.folder / f"_kinesis/positions/{base.commit_id}.json").unlink()
    with pytest.raises(
        PositionsUnreadable, match=f"{base.commit_id}.json.* is missing. Restore the original file"
    ):
        bench.another().positions_at(newest.commit_id)


# The archive

GAP = Gap(after=Position.after("1"), since=None, next_sequence_number=None, until=LISTED_AT)


def finished_shard(number):
    return shard_at(Position.after(str(number)), finished=True, gaps=(GAP,))


def test_finished_shards_that_are_no_longer_listed_are_archived_and_can_be_recalled(chain_of):
    bench = chain_of(SMALL)
    named = {"a": finished_shard(1), "b": finished_shard(2), "c": shard_at()}
    bench.follow(named)
    for number in range(9):
        bench.follow(named | {"c": shard_at(Position.after(str(number)))}, {"a", "b"})
        if bench.segments:
            break
    _, found = bench.read()
    assert found.shards == {"c": bench.newest.shards["c"]}
    chain = bench.another()
    assert chain.archived(found) == {"a": finished_shard(1), "b": finished_shard(2)}
    assert chain.recall(found, ["b", "c", "x"]).shards == {"b": finished_shard(2)} | found.shards


def finish_shards(bench, generations):
    """Finish one shard after another, each followed by a new one; return all finished shards."""
    named, all_finished = {}, {}
    for generation in range(generations):
        retired = {shard_id for shard_id, shard in named.items() if shard.finished}
        all_finished[last := f"{generation:04}"] = finished_shard(generation)
        bench.follow(named | {last: finished_shard(generation), f"{generation + 1:04}": shard_at()}, retired)
        named = bench.chain.positions_at(bench.newest.commit_id).shards
    return all_finished


def test_each_finished_shard_is_in_exactly_one_segment_or_in_the_positions(chain_of):
    bench = chain_of(SMALL)
    all_finished = finish_shards(bench, 40)
    found = bench.another().positions_at(bench.newest.commit_id)
    segments = [positions_archive.decode(path.read_bytes()).shards for path in bench.segments]
    assert len(segments) > 3
    finished = {key: shard for key, shard in found.shards.items() if shard.finished}
    assert bench.another().archived(found) | finished == all_finished
    assert sum(map(len, segments)) + len(finished) == len(all_finished)


def test_later_segments_do_not_change_earlier_ones(chain_of):
    bench = chain_of(SMALL)
    finish_shards(bench, 12)
    before = {path: path.read_bytes() for path in bench.segments}
    assert before
    named = bench.chain.positions_at(bench.newest.commit_id).shards
    for number in range(12):
        named = named | {f"x{number}": finished_shard(number)}
        bench.follow(named, {shard_id for shard_id in named if shard_id.startswith("x")} - {f"x{number}"})
        named = bench.chain.positions_at(bench.newest.commit_id).shards
    assert len(bench.segments) > len(before)
    assert {path: path.read_bytes() for path in before} == before


def test_an_unchanged_recalled_shard_is_not_written_again(chain_of):
    bench = chain_of(SMALL)
    finish_shards(bench, 12)
    found = bench.chain.positions_at(bench.newest.commit_id)
    (archived, *_) = bench.chain.archived(found)
    named = bench.chain.recall(found, [archived]).shards
    assert archived in named
    bench.follow(named)
    assert archived not in bench.another().positions_at(bench.newest.commit_id).shards


def test_positions_take_precedence_over_the_archive_for_a_rewound_shard(chain_of):
    bench = chain_of(SMALL)
    finish_shards(bench, 12)
    found = bench.chain.positions_at(bench.newest.commit_id)
    (archived, *_) = bench.chain.archived(found)
    reopened = shard_at(Position.after("0"))
    bench.follow(found.shards | {archived: reopened})
    for number in range(5):
        bench.follow(bench.newest.shards | {"y": shard_at(Position.after(str(number)))})
    now = bench.another().positions_at(bench.newest.commit_id)
    assert now.shards[archived] == reopened
    assert bench.another().recall(now, [archived]).shards[archived] == reopened


def test_a_shard_id_beyond_the_archived_ones_does_not_read_the_archive(chain_of):
    bench = chain_of(SMALL)
    finish_shards(bench, 12)
    chain = bench.another()
    found = chain.positions_at(bench.newest.commit_id)
    files = chain.files_read
    assert chain.recall(found, ["zzz"]) is found
    assert chain.files_read == files
    chain.recall(found, ["0000"])
    assert chain.files_read > files


def test_archived_shards_do_not_affect_commit_size_or_reads(chain_of):
    bench = chain_of()
    named = {f"shardId-{number:012}": finished_shard(number) for number in range(5_000)}
    bench.follow(named | {"z": shard_at()})
    bench.follow(named | {"z": shard_at(Position.after("1"))})
    base = msgspec.structs.replace(bench.newest, format=5)  # as an older release wrote them
    path = bench.folder / f"_kinesis/positions/{base.commit_id}.json"
    path.write_bytes(positions_file.encode(base))
    bench.chain = bench.another()
    bench.follow(named | {"z": shard_at(Position.after("2"))}, named.keys())
    sizes = []
    for number in range(3, 70):
        bench.follow({"z": shard_at(Position.after(str(number)))})
        sizes.append(bench.size(bench.newest.commit_id))
    files, found = bench.read()
    assert (files, found.shards.keys()) == (2, {"z"})
    assert max(sizes) < 2500
    assert len(bench.another().archived(found)) == 5_000
    assert len(bench.segments) == 1
