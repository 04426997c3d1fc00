"""Manifests of a run with false content commit nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.errors import LandingFailed
from kinesis_assets.kinesis.stream import CLOCK_STEP
from support.hostile_spark import (
    BEYOND,
    A,
    B,
    HostileBench,
    Manifest,
    Tamper,
    changed_by,
    unchanged,
    with_facts,
    with_field,
    with_path,
    with_position,
    with_stats,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def read_through(manifest: Manifest, number: str) -> None:
    """Set the first shard's last row and its position."""
    facts = manifest["shards"][0]["stats"]
    facts["through"].update(sequence_number=number)
    facts["last_sequence_number"] = number


def start_of(shard: Manifest) -> str:
    """Return the number of the record that the first run committed, which is before the shard's range."""
    return str(int(shard["stats"]["first_sequence_number"]) - 1)


def idle_that_moved(manifest: Manifest) -> None:
    """Report that nothing was read of the first shard, although it moved."""
    shard = manifest["shards"][0]
    shard["facts"].update(first_arrival=None, last_arrival=None)
    shard["stats"].update(rows=0, bytes=0, checksum=0, first_sequence_number=None, last_sequence_number=None)
    for file in manifest["files"]:
        file["rows_by_shard"].pop(A, None)


def facts_of_no_rows(manifest: Manifest, **facts: Any) -> None:
    """Report facts about rows of the first shard, of which nothing was read."""
    idle_that_moved(manifest)
    shard = manifest["shards"][0]["stats"]
    shard.update(through=shard["start"], **facts)


def numbers_of_no_rows(manifest: Manifest) -> None:
    facts_of_no_rows(manifest, first_sequence_number="1", last_sequence_number="1")


def shift_rows(manifest: Manifest) -> None:
    """Report rows of one shard as the other's, with the right sum."""
    manifest["files"][0]["rows_by_shard"].update({A: 1, B: 3})


def last_is_first(manifest: Manifest) -> None:
    facts = manifest["shards"][0]["stats"]
    facts["last_sequence_number"] = facts["first_sequence_number"]


def add_gap(manifest: Manifest, since: str | None = None, until: str = "2026-01-31T12:00:00Z") -> None:
    after = manifest["shards"][0]["stats"]["through"]
    gap = {"after": after, "since": since, "next_sequence_number": None, "until": until}
    manifest["shards"][0]["facts"]["gaps"] = [gap]


TOMORROW = datetime.now(UTC) + timedelta(days=1)

FALSE_LANDINGS: dict[str, Tamper] = {
    # Files
    "a path above the table": with_path(lambda name: f"../../{name}"),
    "a path that leaves its folder": with_path(lambda name: name.replace("/", "/../../")),
    "an absolute path": with_path(lambda name: f"/{name}"),
    "another store": with_path(lambda name: f"s3://other/{name}"),
    "an encoded path": with_path(lambda name: name.replace("/", "%2F")),
    "a path with a line's end": with_path(lambda name: f"{name}\n"),
    "a file of the log": with_path(lambda _: "_delta_log/00000000000000000000.json"),
    "another batch's file": with_path(lambda name: name.replace("part-", "part-1")),
    "another date's folder": with_path(lambda name: name.replace("arrival_date=2", "arrival_date=1")),
    "another batch": with_field("batch_id", 7, "files"),
    "another date": with_field("arrival_date", "2020-01-01", "files"),
    "arrivals of another date": with_field("last_arrival", TOMORROW, "files"),
    "an arrival without an offset": with_field("first_arrival", "2026-01-31T12:00:00", "files"),
    "an empty file": with_field("size", 0, "files"),
    "a file twice": changed_by(lambda manifest: manifest["files"].append(manifest["files"][0])),
    "a file of no shard": with_field("rows_by_shard", {}, "files"),
    "rows of another shard": with_field("rows_by_shard", {A: 2, B: 2, "shardId-9": 1}, "files"),
    "fewer than no rows": with_field("rows_by_shard", {A: 2, B: 3, "shardId-9": -1}, "files"),
    "another shard's rows": changed_by(shift_rows),
    "no file": changed_by(lambda manifest: manifest["files"].clear()),
    # Shards
    "a shard that was not asked for": with_field("shard_id", "shardId-9"),
    "a shard too few": changed_by(lambda manifest: manifest["shards"].pop()),
    "a shard twice": changed_by(lambda manifest: manifest["shards"].append(manifest["shards"][0])),
    "more rows than its files have": with_stats(rows=3),
    "fewer rows than none": with_stats(rows=-1),
    "more marked rows than rows": with_facts(bad_records=3),
    "more rows with one of two marks": with_facts(bad_records=1, outside_hash_range=2),
    "fewer bytes than none": with_stats(bytes=-1),
    "fewer than no checksums": with_stats(checksum=-1),
    "rows without numbers": with_stats(first_sequence_number=None, last_sequence_number=None),
    "an end and an error": with_field("error", ["ReadFailed", A, "no answer"]),
    "neither end nor error": with_field("end", None),
    "an unknown end": with_field("end", "never"),
    "a field that there is not": changed_by(lambda manifest: manifest["shards"][0].update(new=1)),
    "a fact that there is not": changed_by(
        lambda manifest: manifest["shards"][0]["stats"].update(surprise=1)
    ),
    "a fact of reading that there is not": changed_by(
        lambda manifest: manifest["shards"][0]["facts"].update(new=1)
    ),
    "numbers of no rows": changed_by(numbers_of_no_rows),
    "bytes of no rows": changed_by(partial(facts_of_no_rows, bytes=1)),
    "a checksum of no rows": changed_by(partial(facts_of_no_rows, checksum=1)),
    # Positions
    "another start": with_position("start", sequence_number="1"),
    "back at the start": changed_by(partial(read_through, number="0")),
    "before its first record": changed_by(
        lambda manifest: read_through(manifest, start_of(manifest["shards"][0]))
    ),
    "a first record before the start": with_stats(first_sequence_number="1"),
    "the record at the start again": changed_by(
        lambda manifest: manifest["shards"][0]["stats"].update(
            first_sequence_number=manifest["shards"][0]["stats"]["start"]["sequence_number"]
        )
    ),
    "a first record after the last": with_stats(first_sequence_number=str(BEYOND)),
    "no first record": with_stats(first_sequence_number=None),
    "no last record": with_stats(last_sequence_number=None),
    "a last record before the position": changed_by(last_is_first),
    "a position after the last record": with_position("through", sequence_number=str(BEYOND)),
    "a number that is none": with_stats(first_sequence_number="1e9"),
    "a position of no number": with_position("through", sequence_number="x"),
    "the latest position": with_stats(through={"kind": "LATEST"}),
    "moved without a record": changed_by(idle_that_moved),
    # Times
    "a tip without an offset": with_field("tip_time", "2026-01-31T12:00:00"),
    "rows that never arrived": with_facts(last_arrival=None),
    "a gap without an offset": changed_by(partial(add_gap, until="2026-01-31T12:00:00")),
    "a gap that began without one": changed_by(partial(add_gap, since="2026-01-31T11:00:00")),
}


@pytest.mark.parametrize("tamper", FALSE_LANDINGS.values(), ids=FALSE_LANDINGS.keys())
def test_an_invalid_manifest_commits_nothing(unread: HostileBench, tamper: Tamper) -> None:
    before = unread.version
    with pytest.raises(LandingFailed, match="invalid manifest"):
        unread.run_tampered(tamper)
    assert unread.version == before


def test_the_run_after_an_invalid_manifest_commits_the_records(partly_read: HostileBench) -> None:
    with pytest.raises(LandingFailed):
        partly_read.run_tampered(with_stats(rows=3))
    assert [outcome.rows for outcome in partly_read.run_tampered(unchanged).outcomes.values()] == [2, 2]


@pytest.mark.parametrize("time", [TOMORROW, "9999-12-31T23:59:59Z"], ids=["tomorrow", "the last day"])
@pytest.mark.parametrize(
    ("field", "tamper"),
    [
        ("tip_time", lambda time: with_field("tip_time", time)),
        ("last_arrival", lambda time: with_facts(last_arrival=time)),
    ],
)
def test_a_time_in_the_future_is_stored_as_the_services_time(
    partly_read: HostileBench, field: str, tamper: Callable[[object], Tamper], time: str
) -> None:
    partly_read.run_tampered(tamper(time))
    now = partly_read.client.describe().service_time
    assert getattr(partly_read.at(A), field) <= now + CLOCK_STEP
