"""Manifests of a replay with false content commit nothing."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import LandingFailed
from support.hostile_spark import (
    BEYOND,
    A,
    HostileBench,
    Manifest,
    Tamper,
    changed_by,
    unchanged,
    with_field,
    with_path,
    with_stats,
)


def filled_nothing(manifest: Manifest) -> None:
    """As if no row of a shard was filled in, though its numbers are given."""
    manifest["shards"][0]["stats"].update(rows=0, bytes=0, checksum=0)
    for file in manifest["files"]:
        file["rows_by_shard"].pop(A, None)


FALSE_FILLS: dict[str, Tamper] = {
    "a path above the table": with_path(lambda name: f"../../{name}"),
    "another start": with_stats(start={"kind": "LATEST"}),
    "more rows than records": with_field("read", 2),
    "more rows than its files have": with_stats(rows=4),
    "numbers of no rows": changed_by(filled_nothing),
    "past the committed position": changed_by(
        lambda manifest: manifest["shards"][0]["stats"]["through"].update(sequence_number=str(BEYOND))
    ),
    "a last row after the last record": with_stats(last_sequence_number=str(BEYOND)),
    "a first row before the first record": with_stats(first_sequence_number="1"),
    "no last row": with_stats(last_sequence_number=None),
    "neither end nor error": with_field("end", None),
    "a shard too few": changed_by(lambda manifest: manifest["shards"].pop()),
}


@pytest.mark.parametrize("tamper", FALSE_FILLS.values(), ids=FALSE_FILLS.keys())
def test_an_invalid_manifest_of_a_replay_commits_nothing(emptied: HostileBench, tamper: Tamper) -> None:
    before = emptied.version
    with pytest.raises(LandingFailed, match="invalid manifest"):
        emptied.replay_tampered(tamper)
    assert emptied.version == before


def test_the_replay_after_an_invalid_manifest_adds_the_missing_rows(replayable: HostileBench) -> None:
    with pytest.raises(LandingFailed):
        replayable.replay_tampered(with_stats(rows=4))
    assert [outcome.rows for outcome in replayable.replay_tampered(unchanged).outcomes.values()] == [3, 3]
