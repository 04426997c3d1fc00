"""The archive of finished shards that are no longer listed."""

from __future__ import annotations

import msgspec
import pytest

from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.positions import positions_chain, positions_file
from kinesis_assets.table.positions.positions_chain import ChainPolicy
from support.attempts import LISTED_AT
from support.stored_positions import shard_after, shard_at

SMALL = ChainPolicy(max_files=3, min_repeated=4, min_archived=2)
GAP = Gap(after=Position.after("1"), since=None, next_sequence_number=None, until=LISTED_AT)


def finished_shard(number):
    return shard_after(number, finished=True, gaps=(GAP,))


def test_finished_shards_that_are_no_longer_listed_are_archived_and_can_be_read(chain_of):
    folder = chain_of(SMALL)
    named = {"a": finished_shard(1), "b": finished_shard(2), "c": shard_at()}
    folder.follow(named)
    for number in range(9):
        folder.follow(named | {"c": shard_after(number)}, {"a", "b"})
        if folder.segments:
            break
    _, found = folder.read()
    assert found.shards == {"c": folder.newest.shards["c"]}
    chain = folder.reopened()
    assert chain.archived(found) == {"a": finished_shard(1), "b": finished_shard(2)}
    assert chain.with_archived(found, ["b", "c", "x"]).shards == {"b": finished_shard(2)} | found.shards


def finish_shards(folder, generations):
    """Finish one shard after another, each followed by a new one; return all finished shards."""
    named, all_finished = {}, {}
    for generation in range(generations):
        retired = {shard_id for shard_id, shard in named.items() if shard.finished}
        all_finished[last := f"{generation:04}"] = finished_shard(generation)
        folder.follow(named | {last: finished_shard(generation), f"{generation + 1:04}": shard_at()}, retired)
        named = folder.chain.positions_at(folder.newest.commit_id).shards
    return all_finished


def test_each_finished_shard_is_in_exactly_one_segment_or_in_the_positions(chain_of):
    folder = chain_of(SMALL)
    all_finished = finish_shards(folder, 40)
    found = folder.reopened().positions_at(folder.newest.commit_id)
    segments = [positions_chain.decode(path.read_bytes()).shards for path in folder.segments]
    assert len(segments) > 3
    finished = {key: shard for key, shard in found.shards.items() if shard.finished}
    assert folder.reopened().archived(found) | finished == all_finished
    assert sum(map(len, segments)) + len(finished) == len(all_finished)
    end = msgspec.json.decode(folder.path(folder.newest).read_bytes())["archive"]
    assert end["shards"] == sum(map(len, segments))


def test_later_segments_do_not_change_earlier_ones(chain_of):
    folder = chain_of(SMALL)
    finish_shards(folder, 12)
    before = {path: path.read_bytes() for path in folder.segments}
    assert before
    named = folder.chain.positions_at(folder.newest.commit_id).shards
    for number in range(12):
        named = named | {f"x{number}": finished_shard(number)}
        folder.follow(named, {shard_id for shard_id in named if shard_id.startswith("x")} - {f"x{number}"})
        named = folder.chain.positions_at(folder.newest.commit_id).shards
    assert len(folder.segments) > len(before)
    assert {path: path.read_bytes() for path in before} == before


def test_an_unchanged_shard_from_the_archive_is_not_written_again(chain_of):
    folder = chain_of(SMALL)
    finish_shards(folder, 12)
    found = folder.chain.positions_at(folder.newest.commit_id)
    (archived, *_) = folder.chain.archived(found)
    named = folder.chain.with_archived(found, [archived]).shards
    assert archived in named
    folder.follow(named)
    assert archived not in folder.reopened().positions_at(folder.newest.commit_id).shards


def test_positions_take_precedence_over_the_archive_for_a_rewound_shard(chain_of):
    folder = chain_of(SMALL)
    finish_shards(folder, 12)
    found = folder.chain.positions_at(folder.newest.commit_id)
    (archived, *_) = folder.chain.archived(found)
    reopened = shard_after(0)
    folder.follow(found.shards | {archived: reopened})
    for number in range(5):
        folder.follow(folder.newest.shards | {"y": shard_after(number)})
    now = folder.reopened().positions_at(folder.newest.commit_id)
    assert now.shards[archived] == reopened
    assert folder.reopened().with_archived(now, [archived]).shards[archived] == reopened


@pytest.mark.parametrize("which", [0, -1])
def test_a_segment_of_another_stream_is_not_believed(chain_of, which):
    folder = chain_of(SMALL)
    finish_shards(folder, 12)
    path = folder.segments[which]
    segment = positions_chain.decode(path.read_bytes())
    other = msgspec.structs.replace(segment.identity, arn=f"{segment.arn}-other")
    path.write_bytes(positions_chain.encode(msgspec.structs.replace(segment, identity=other)))
    chain, newest = folder.reopened(), folder.newest.commit_id
    with pytest.raises(PositionsUnreadable, match=f"{segment.commit_id}.json is of {other.arn}"):
        chain.archived(chain.positions_at(newest))


def test_a_shard_id_beyond_the_archived_ones_does_not_read_the_archive(chain_of):
    folder = chain_of(SMALL)
    finish_shards(folder, 12)
    chain = folder.reopened()
    found = chain.positions_at(folder.newest.commit_id)
    files = chain.files_read
    assert chain.with_archived(found, ["zzz"]) is found
    assert chain.files_read == files
    chain.with_archived(found, ["0000"])
    assert chain.files_read > files


@pytest.mark.slow
def test_archived_shards_do_not_affect_commit_size_or_reads(chain_of):
    folder = chain_of()
    named = {f"shardId-{number:012}": finished_shard(number) for number in range(5_000)}
    folder.follow(named | {"z": shard_at()})
    folder.follow(named | {"z": shard_after(1)})
    base = msgspec.structs.replace(folder.newest, format=5)  # as an older release wrote them
    path = folder.path(base)
    path.write_bytes(positions_file.encode(base))
    folder.chain = folder.reopened()
    folder.follow(named | {"z": shard_after(2)}, named.keys())
    sizes = []
    for number in range(3, 70):
        folder.follow({"z": shard_after(number)})
        sizes.append(folder.path(folder.newest).stat().st_size)
    files, found = folder.read()
    assert (files, found.shards.keys()) == (2, {"z"})
    assert max(sizes) < 2500
    assert len(folder.reopened().archived(found)) == 5_000
    assert len(folder.segments) == 1
