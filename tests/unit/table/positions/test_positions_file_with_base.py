"""Positions files that contain the changes since a base, and archive segments."""

from __future__ import annotations

from base64 import b64decode

import msgspec
import pytest

from kinesis_assets.table.positions import positions_chain, positions_file
from kinesis_assets.table.positions.positions import FORMAT
from kinesis_assets.table.positions.positions_chain import Segment
from support.attempts import LISTED_AT, STREAM
from support.stored_positions import positions_of, shard_after, shard_at


def with_base():
    """Return positions, the positions that follow them, and the content of the file with the changes."""
    replace = msgspec.structs.replace
    base = replace(positions_of(a=shard_at(), b=shard_after(4)), commit_id=6)
    changed = positions_of(a=shard_at(), b=shard_after(9))
    now = replace(changed, previous=6, generation=1, by="me", listed_at=LISTED_AT)
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


@pytest.mark.parametrize(("field", "value"), [("token", 8), ("previous", 5), ("format", FORMAT - 1)])
def test_a_header_that_differs_from_the_changes_is_refused(field, value):
    base, _, content = with_base()
    packed = msgspec.json.encode(msgspec.json.decode(content) | {field: value})
    with pytest.raises(msgspec.ValidationError, match="header does not match"):
        positions_file.read(packed, {6: base}.__getitem__)


def test_a_base_of_another_stream_is_refused():
    base, _, content = with_base()
    other = msgspec.structs.replace(base, identity=msgspec.structs.replace(STREAM, arn=f"{STREAM.arn}-2"))
    with pytest.raises(msgspec.ValidationError, match="another stream"):
        positions_file.read(content, {6: other}.__getitem__)


def test_a_release_without_bases_can_read_the_format_number():
    """Such a release decodes the whole file as JSON, or the part before the shards."""
    _, _, content = with_base()
    assert msgspec.json.decode(content)["format"] == FORMAT
    assert msgspec.json.decode(content[: content.index(b',"shards":')] + b"}")["format"] == FORMAT


def test_a_segment_survives_a_round_trip():
    segment = Segment(STREAM, 9, (3, 5), {"a": shard_after(7, finished=True)})
    assert positions_chain.decode(positions_chain.encode(segment)) == segment


def test_a_segment_of_a_newer_format_is_refused_by_its_number():
    content = positions_chain.encode(Segment(STREAM, 9, (), {}))
    newer = msgspec.json.encode(msgspec.json.decode(content) | {"format": FORMAT + 1, "later": 1})
    with pytest.raises(msgspec.ValidationError, match=rf"format is {FORMAT + 1}\b"):
        positions_chain.decode(newer)
