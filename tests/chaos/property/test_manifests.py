"""Property: any content in place of a manifest is either accepted as one or refused with one line."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from math import inf
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from kinesis_assets.errors import DataLost, LandingFailed
from kinesis_assets.ingest.manifest import Landing, ShardLanding, encode
from kinesis_assets.ingest.task import LandingJob
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import Bounds, RangeEnd, ShardRange
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.table.data_file import DataFile
from kinesis_assets.table.positions.range_stats import RangeStats, ReadingFacts
from kinesis_assets.table.store.storage import TableFolder

NOON = datetime(2026, 2, 2, 12, tzinfo=UTC)
JOB = LandingJob("clicks", ClientSettings(), TableFolder.at("s3://lake/clicks"), 7, inf)
RANGES = [
    ShardRange(name, Position.after("5", sub), Bounds(), ("0", "9")) for name, sub in (("a", None), ("b", 3))
]
READ = RangeStats(
    start=Position.after("5"),
    through=Position.after("8"),
    first_sequence_number="7",
    last_sequence_number="8",
    rows=2,
    bytes=2,
    checksum=1,
)
HONEST = Landing(
    (
        DataFile(
            "arrival_date=2026-02-02/part-7-" + 32 * "0" + ".snappy.parquet",
            9,
            "2026-02-02",
            {"a": 2},
            7,
            NOON,
            NOON,
        ),
    ),
    (
        ShardLanding(
            *("a", READ, RangeEnd.TIP, None),
            facts=ReadingFacts(
                bad_records=0,
                outside_hash_range=0,
                first_arrival=NOON,
                last_arrival=NOON,
                millis_behind_latest=0,
                gaps=(Gap(after=Position.after("5"), since=None, next_sequence_number="7", until=NOON),),
                throttles=1,
            ),
            tip_time=NOON,
        ),
        ShardLanding(
            *("b", RangeStats.unread(Position.after("5", 3)), None, DataLost("b", "lost")),
            facts=ReadingFacts.unread(),
            tip_time=None,
        ),
    ),
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.sampled_from(["a", "b", "TIP", "LATEST", "AFTER_SEQUENCE_NUMBER", "0", "1" * 200, "DataLost"])
    | st.sampled_from(["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "2026-02-02T12:00:00"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of each part of a manifest."""
    found = [path] if path else []
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return found + [place for key, child in children for place in places(child, (*path, key))]


PLACES = places(msgspec.msgpack.decode(encode(HONEST)))


def accepted(content: bytes) -> Landing:
    return Landing.of([content], JOB.stream, JOB.batch_id, RANGES)


def test_an_unchanged_manifest_is_accepted() -> None:
    assert encode(accepted(encode(HONEST))) == encode(HONEST)


@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=3))
@example(changes=[(("files", 0, "first_arrival"), "0001-01-01T00:00:00+14:00")])
def test_a_changed_manifest_never_moves_a_shard_back(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    tree = msgspec.msgpack.decode(encode(HONEST))
    for path, value in changes:
        part = tree
        with suppress(KeyError, IndexError, TypeError):  # an earlier change has replaced this part
            for key in path[:-1]:
                part = part[key]
            part[path[-1]] = value
    try:
        landing = accepted(msgspec.msgpack.encode(tree))
    except LandingFailed as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017  # whatever is refused
    else:
        for shard in landing.shards:
            assert int(shard.stats.through.sequence_number or 0) >= 5
        assert all(file.path.startswith("arrival_date=2026-02-02/part-7-") for file in landing.files)


@given(content=st.binary(max_size=200))
@example(content=b"\x81\xa5\x00\x00\x00\x00\x80")  # the text is not UTF-8
def test_random_bytes_are_refused(content: bytes) -> None:
    with suppress(LandingFailed):
        accepted(content)
