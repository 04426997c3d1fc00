"""Statistics of ranges in every released format of positions files and amendments."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import msgspec
import pyarrow as pa
import pytest

from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.positions import amendments, positions_file
from kinesis_assets.table.positions.positions import FORMAT
from kinesis_assets.table.positions.range_stats import RangeStats, ReadingFacts, with_rows
from kinesis_assets.table.raw_table import PositionedTable
from support.stored_positions import decoded

START = Position.parse("TRIM_HORIZON")
FIRST_OF_A = RangeStats(
    start=START,
    through=Position.after("12", 7),
    first_sequence_number="10",
    last_sequence_number="12",
    rows=3,
    bytes=300,
    checksum=1 << 33,
)
SECOND_OF_A = RangeStats(
    start=Position.after("12", 7),
    through=Position.after("20"),
    first_sequence_number="12",
    last_sequence_number="20",
    rows=9,
    bytes=900,
    checksum=77,
)
FIRST_OF_B = RangeStats(
    start=START,
    through=Position.after("5"),
    first_sequence_number="4",
    last_sequence_number="5",
    rows=2,
    bytes=20,
    checksum=5,
)
FILLED = RangeStats(
    start=Position.after("12", 7),
    through=Position.after("20"),
    first_sequence_number="14",
    last_sequence_number="15",
    rows=2,
    bytes=200,
    checksum=9,
)

# Written by releases before `RangeStats` existed.

IDENTITY = (
    b'"identity":{"arn":"arn:aws:kinesis:us-east-1:000000000000:stream/orders",'
    b'"created":"2026-01-01T00:00:00Z"}'
)
RANGE = (
    b'{"start":{"kind":"TRIM_HORIZON"},"through":{"kind":"AFTER_SEQUENCE_NUMBER","sequence_number":"12",'
    b'"sub_sequence_number":7},"first_sequence_number":"10","last_sequence_number":"12","rows":3,"bytes":300,'
    b'"checksum":8589934592}'
)
PLAIN = (
    b'{"format":3,' + IDENTITY + b',"token":1,"previous":null,"generation":1,"batch_id":10,"shards":'
    b'{"a":{"parents":[],"hash_range":["0","9"],"position":{"kind":"AFTER_SEQUENCE_NUMBER","sequence_number":'
    b'"12","sub_sequence_number":7},"tip_time":"2026-02-02T12:00:00Z"},"b":{"parents":[],"hash_range":["0","9"]'
    b',"position":{"kind":"TRIM_HORIZON"}}},"landed":{"a":' + RANGE + b'},"by":"run"}'
)
"""Format 3. Formats 4 and 5 compressed the same content, as format 6 does for a file with all shards."""

WHOLE = (
    b'{"format":6,' + IDENTITY + b',"token":1,"previous":null,"size":679,"shards":"'
    b"KLUv/WCnAe0KAJZWRiUgb5wDA+jZUrKw7Wg6ulgnW9CKo2yDPA++YrFXz4OHmkACQGYFNwA5AEMAjS2NLQQMY56PtJ0u9HVejZYC"
    b"mJxuc7JsS7PThWPyY4VPkozhMg/XPSNf6ddQo/dFkG83LVXxjJ/IawS6dSR20hfFRJ4b6joKR+sk/mItHz1Hgto91Gu3CjXyNZlE"
    b"mOdIvQtdylfLQ5VQ/VVdIhmDBBIMD4cFp4HhAXmYBmHYwuj02qG8AueJTHt+9ZkidBSCGi2Uv/5oEBoiHE6T4GgiHhoI59FAFA7g"
    b"kzzjMUX5onjj6yzVYdznKw/TGBAIaDQMBgzyU2QJpBL0xZh25fkKyDMGtV9n3KS9eV+FFInUSv3V65ojjaCbfFVVdYdDGADITYwt"
    b"AfjRpkdBwyDvq/+QLSo+qhJsLWoEVhtQGSnAmLWVIU1wfc6gDhfMr4cooKJsGZl2IRTq6JoGF9iwJQ8="
    b'"}'
)
"""Format 6, with all shards."""

CHANGES = (
    b'{"format":6,' + IDENTITY + b',"token":2,"previous":1,"base":1,"size":411,"shards":"'
    b"KLUv/WCbAH0KAKZTTD5ApToHc+7eMYB9uWzX+5n7Kc3+/+e/RTes27h805rIhBmJkhMtJhE5dfszMOwrchjElpd2NIbZu/hHIsiW"
    b"ATcAOgBAAJ17oAV2tu3f6r1BJxVG255fy7SFSX7bky+1v9/4itqDrIbdUghgtydSKN+MG7xoJNvRSY9KwyM1O81KgKVX5TSviqVX"
    b"dpofWAmXfgp5JtGDbsNXScDbhV+2Hoph8mbrjfsDcn1JXox2CxTDLZI5VQUEHIgGFin8lKSHeaXZUGC4TUSXwXCcEBBfETXKbvOn"
    b"MrxzVNNqsZiyy+nCcJqla0NU0xqpmNqqCdVALVAvhNQgDXXAwdXBUTCWL34dfqjkO4e8FPYg0lEVWxGA0uX362FVTm9vLHHXH+7y"
    b"oh8AtzlkOppue9BsHYltouO2CgA6E/KdWOjz9FDtwBIp8ZjJjZ67aoo1ZYA9"
    b'","check":2028604326}'
)
"""Format 6, with the changes since `WHOLE`: one range in columns, and one as an object."""

AMENDMENT = b"""{
 "format": 2,
 "token": 3,
 "previous": null,
 "batch_id": 30,
 "at": "2026-02-02T12:00:00Z",
 "by": "run",
 "filled": {
  "a": {
   "start": {
    "kind": "AFTER_SEQUENCE_NUMBER",
    "sequence_number": "12",
    "sub_sequence_number": 7
   },
   "through": {
    "kind": "AFTER_SEQUENCE_NUMBER",
    "sequence_number": "20"
   },
   "first_sequence_number": "14",
   "last_sequence_number": "15",
   "rows": 2,
   "bytes": 200,
   "checksum": 9
  }
 },
 "arn": "arn:aws:kinesis:us-east-1:000000000000:stream/orders"
}"""


@pytest.mark.parametrize("content", [PLAIN, WHOLE], ids=["plain", "compressed"])
def test_the_ranges_of_a_file_with_all_shards_are_read(content):
    assert decoded(content).added == {"a": FIRST_OF_A}


@pytest.mark.parametrize("form", [4, 5])
def test_ranges_of_formats_4_and_5_are_read(form):
    older = msgspec.structs.replace(decoded(PLAIN), format=form)
    assert decoded(positions_file.encode(older)).added == {"a": FIRST_OF_A}


def test_the_ranges_of_a_file_with_changes_are_read():
    base = decoded(WHOLE)
    assert positions_file.read(CHANGES, {1: base}.__getitem__).positions.added == {
        "a": SECOND_OF_A,
        "b": FIRST_OF_B,
    }


def test_the_ranges_of_an_amendment_are_read():
    assert amendments.decode(AMENDMENT).filled == {"a": FILLED}


def test_the_content_of_a_file_with_all_shards_has_not_changed():
    positions = msgspec.structs.replace(decoded(PLAIN), format=FORMAT)
    assert msgspec.json.encode(positions) == PLAIN.replace(b'"format":3', b'"format":%d' % FORMAT)
    assert unpacked(positions_file.encode(positions)) == unpacked(WHOLE)


def test_the_content_of_a_file_with_changes_has_not_changed():
    base = decoded(WHOLE)
    stored = positions_file.read(CHANGES, {1: base}.__getitem__)
    assert unpacked(positions_file.encode_changes(stored, base)) == unpacked(CHANGES)


def test_the_content_of_an_amendment_has_not_changed(tmp_path):
    amendment = amendments.decode(AMENDMENT)
    files = PositionedTable(str(tmp_path)).files
    amendments.amendment_chain("table", lambda: files).write(amendment)
    assert (tmp_path / amendments.amendment_path(amendment.commit_id)).read_bytes() == AMENDMENT


def unpacked(content: bytes) -> tuple[dict[str, object], bytes]:
    """The document of a positions file without its compressed part, and that part decompressed."""
    document = msgspec.json.decode(content)
    compressed = msgspec.convert(document.pop("shards"), bytes, strict=False)
    return document, pa.decompress(compressed, document["size"], codec="zstd", asbytes=True)


# Files that no release wrote


NO_ROWS = RANGE.replace(
    b'"first_sequence_number":"10","last_sequence_number":"12","rows":3,"bytes":300',
    b'"first_sequence_number":null,"last_sequence_number":null,"rows":0,"bytes":0',
).replace(b"8589934592", b"0")


@pytest.mark.parametrize(
    "range_",
    [
        NO_ROWS,
        RANGE.replace(b'"rows":3', b'"rows":0'),
        RANGE.replace(b'"rows":3', b'"rows":-3'),
        RANGE.replace(b'"first_sequence_number":"10"', b'"first_sequence_number":null'),
        RANGE.replace(b'"rows":3', b'"rows":3,"later":1'),
    ],
    ids=[
        "no rows",
        "sequence numbers without rows",
        "a negative number of rows",
        "rows without a first sequence number",
        "an unknown field",
    ],
)
def test_a_damaged_range_is_refused(range_):
    with pytest.raises(msgspec.ValidationError):
        decoded(PLAIN.replace(RANGE, range_))
    amendment = msgspec.json.decode(AMENDMENT) | {"filled": {"a": msgspec.json.decode(range_)}}
    with pytest.raises(msgspec.ValidationError):
        amendments.decode(msgspec.json.encode(amendment))


def test_changes_with_a_range_without_rows_are_refused():
    base = decoded(WHOLE)
    stored = positions_file.read(CHANGES, {1: base}.__getitem__)
    forged = msgspec.structs.replace(stored.positions, added={"b": RangeStats.unread(START)})
    content = positions_file.encode_changes(msgspec.structs.replace(stored, positions=forged), base)
    with pytest.raises(msgspec.ValidationError, match=r"\bof b\b"):
        positions_file.read(content, {1: base}.__getitem__)


def test_ranges_without_rows_are_not_stored():
    assert with_rows({"a": FIRST_OF_A, "b": RangeStats.unread(START)}) == {"a": FIRST_OF_A}
    amendment = amendments.next_amendment(
        None,
        batch_id=1,
        at=datetime(2026, 2, 2, tzinfo=UTC),
        by=None,
        filled={"a": FILLED, "b": RangeStats.unread(START)},
    )
    assert amendment.filled == {"a": FILLED}


@pytest.mark.parametrize(
    ("stats", "places"),
    [
        (FIRST_OF_A, ((10, -1), (12, 7))),
        (SECOND_OF_A, ((12, 7), (20, math.inf))),
        (FIRST_OF_B, ((4, -1), (5, math.inf))),
        (FILLED, ((14, -1), (15, math.inf))),
        (RangeStats.unread(START), ((0, -1), (0, math.inf))),
    ],
    ids=["ends in an aggregate", "starts in an aggregate", "whole records", "inside of its range", "no rows"],
)
def test_the_places_of_rows_are_within_aggregates_where_the_range_starts_or_ends_in_one(stats, places):
    assert stats.places == places


@pytest.mark.parametrize("field", ["bytes", "checksum"])
def test_facts_about_no_rows_have_neither_bytes_nor_a_checksum(field):
    with pytest.raises(ValueError, match="bytes or a checksum of no rows"):
        msgspec.structs.replace(RangeStats.unread(START), **{field: 1})


def test_a_shard_that_was_not_read_has_no_bad_records_and_none_of_another_shard():
    facts = ReadingFacts.unread()
    assert (facts.bad_records, facts.outside_hash_range) == (0, 0)
