"""One commit of a table as a link of its chain: what it added, and which commit precedes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.positions.range_stats import RangeStats


@dataclass(frozen=True, slots=True)
class CommitLink:
    """One commit of a chain of positions files or of amendment files.

    Attributes:
        previous: The commit id of the commit before it; None for the first.
        by: The id of the Dagster run, or the name of the person, that made it; None if not recorded.
        added: The ranges whose rows it added, by shard id.
        finished: Those of these shards that are finished after it.
        filled: Whether its rows were filled in by a replay.
    """

    commit_id: int
    previous: int | None
    batch_id: int
    by: str | None
    added: Mapping[str, RangeStats]
    finished: Collection[str] = ()
    filled: bool = False

    @classmethod
    def of_positions(cls, positions: StreamPositions) -> CommitLink:
        """Return the link of a commit that moved positions."""
        shards = positions.shards
        return cls(
            commit_id=positions.commit_id,
            previous=positions.previous,
            batch_id=positions.batch_id,
            by=positions.by,
            added=positions.added,
            finished=frozenset(
                shard_id for shard_id in positions.added if shard_id in shards and shards[shard_id].finished
            ),
        )

    @classmethod
    def of_amendment(cls, amendment: Amendment) -> CommitLink:
        """Return the link of a commit that changed rows behind the positions."""
        return cls(
            commit_id=amendment.commit_id,
            previous=amendment.previous,
            batch_id=amendment.batch_id,
            by=amendment.by,
            added=amendment.filled,
            filled=True,
        )
