"""`positions`: the position of each shard in the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kinesis_assets.cli.options import json_option, print_rows, project_of, stream_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import Predecessor, ShardPosition, StreamPositions


@click.command()
@stream_options
@json_option
def positions(*, as_json: bool, **stream: Any) -> None:
    """Print the position of each shard, and those of deleted streams that had the same name."""
    project = project_of(**stream)
    with project.open_stream() as opened:
        identity = opened.client.describe().identity
        snapshot = opened.table.snapshot()
        current, amendment = snapshot.positions(identity), snapshot.amendment(identity)
        if current is not None:
            current = snapshot.with_all_archived(current)
    rows = [] if current is None else [{"stream": project.stream, **row} for row in _rows(current, amendment)]
    print_rows(rows, as_json=as_json)


def _rows(current: StreamPositions, amendment: Amendment | None) -> Iterator[dict[str, Any]]:
    for shard_id, shard in current.shards.items():
        yield _row(shard_id, shard, amendment)
    for predecessor in current.predecessors:
        yield from _given_up(predecessor)


def _row(shard_id: str, shard: ShardPosition, amendment: Amendment | None) -> dict[str, Any]:
    from kinesis_assets.ingest.idle_shards import safe_until  # noqa: PLC0415  # each command imports only what it needs
    from kinesis_assets.table.positions.amendments import ranges_to_fill  # noqa: PLC0415  # as above

    safe = safe_until(shard, ranges_to_fill(amendment, {shard_id: shard}).get(shard_id, {}).values())
    return {
        "shard": shard_id,
        "parents": list(shard.parents),
        "state": "finished" if shard.finished else "open",
        "position": str(shard.position),
        "last_arrival": shard.last_arrival and shard.last_arrival.isoformat(),
        "tip_time": shard.tip_time and shard.tip_time.isoformat(),
        "safe_until": safe and safe.isoformat(),
        "gaps": [
            str(gap) for gap in shard.gaps if amendment is None or not amendment.has_cleared(shard_id, gap)
        ],
        "last_seek": str(shard.seeks[-1]) if shard.seeks else None,
    }


def _given_up(predecessor: Predecessor) -> Iterator[dict[str, Any]]:
    """Yield a row for each shard of a deleted stream that was unfinished or has gaps."""
    created = f"the stream created at {predecessor.identity.created:%Y-%m-%dT%H:%M:%SZ} was deleted"
    for shard_id in sorted({*predecessor.unfinished, *predecessor.gaps}):
        position = predecessor.unfinished.get(shard_id)
        yield {
            "shard": shard_id,
            "parents": [],
            "state": "finished" if position is None else "given_up",
            "position": position and str(position),
            "last_arrival": None,
            "tip_time": None,
            "safe_until": None,
            "gaps": [created, *map(str, predecessor.gaps.get(shard_id, ()))],
            "last_seek": None,
        }
