"""The commits of a stream's table as a chain, as far as Dagster's events go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg
import msgspec

from kinesis_assets.dagster.metadata import landed_metadata
from kinesis_assets.dagster.names import raw_key
from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.ingest.run import ShardState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kinesis_assets.table.amendments import Past
    from kinesis_assets.table.positions import Landed, StreamPositions

Told = tuple[str, str]
"""A batch's id as text, and a shard's: what an event tells of."""

FILLED = "filled"
"""The state of a shard in the event of rows that were filled in behind its position."""

_BETWEEN = 10
"""So many commits are looked at again for one stretch instead of two. Without a bound, a run that never ends
would keep all that came after it."""


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """Part of a chain.

    Attributes:
        newest: Its newest token, inclusive.
        until: The token it goes back to, exclusive; None for the chain's beginning.
        runs: If any, all of it was made by these, and it is not looked at while all of them are unfinished.
    """

    newest: int
    until: int | None
    runs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """One commit, as far as its events go.

    Attributes:
        token: Names its file.
        previous: The token before it.
        batch_id: Its rows carry it.
        by: Who made it: a Dagster run's id, or a person.
        landed: What it brought, by shard id.
        states: What an event calls the state of each of these shards.
    """

    token: int
    previous: int | None
    batch_id: int
    by: str | None
    landed: Mapping[str, Landed]
    states: Mapping[str, str]

    @classmethod
    def of_positions(cls, positions: StreamPositions) -> Link:
        """A commit that moved positions."""
        states = {
            shard_id: str(
                ShardState.FINISHED if positions.shards[shard_id].finished else ShardState.COMMITTED
            )
            for shard_id in positions.landed
        }
        return cls(
            token=positions.token,
            previous=positions.previous,
            batch_id=positions.batch_id,
            by=positions.by,
            landed=positions.landed,
            states=states,
        )

    @classmethod
    def of_past(cls, past: Past) -> Link:
        """A commit behind the positions."""
        return cls(
            token=past.token,
            previous=past.previous,
            batch_id=past.batch_id,
            by=past.by,
            landed=past.filled,
            states=dict.fromkeys(past.filled, FILLED),
        )

    def told(self, shard_id: str) -> Told:
        """What an event of one of its shards tells of."""
        return str(self.batch_id), shard_id

    def event(self, stream: str, shard_id: str) -> dg.AssetMaterialization:
        """The event of one of its shards."""
        metadata = landed_metadata(
            stream, shard_id, self.landed[shard_id], self.batch_id, state=self.states[shard_id]
        )
        return dg.AssetMaterialization(raw_key(stream), partition=shard_id, metadata=metadata)


def walk(
    link_at: Callable[[int], Link], stretch: Stretch, most: int, is_over: Callable[[], bool]
) -> tuple[list[Link], Stretch | None]:
    """The commits of a stretch, and what is left of it when that many were read or the time is over."""
    links: list[Link] = []
    token: int | None = stretch.newest
    while token is not None and token != stretch.until:
        if len(links) >= most or (links and is_over()):
            return links, Stretch(token, stretch.until)
        try:
            links.append(link_at(token))
        except PositionsUnreadable:
            break  # pruned: nobody can tell any more
        token = links[-1].previous
    return links, None


def stretch_of(link: Link) -> Stretch:
    """The part of a chain that is one commit."""
    return Stretch(link.token, link.previous)


def joined(stretches: Iterable[Stretch], before: Mapping[int, int | None]) -> Iterator[Stretch]:
    """The same, newest first, with those that follow on each other as one if both wait for runs or none.

    Of runs that follow side by side the commits of one that ended are looked at again for that, or what is
    left of the others would be as many stretches as they have commits.

    Args:
        stretches: What is left, newest first.
        before: The token before each of the commits that were just read.
    """
    last: Stretch | None = None
    for stretch in stretches:
        if last is not None and bool(last.runs) == bool(stretch.runs) and _is_near(last, stretch, before):
            last = Stretch(last.newest, stretch.until, tuple(dict.fromkeys((*last.runs, *stretch.runs))))
            continue
        if last is not None:
            yield last
        last = stretch
    if last is not None:
        yield last


def _is_near(newer: Stretch, older: Stretch, before: Mapping[int, int | None]) -> bool:
    """Whether nothing is between two stretches; or, of those that wait for runs, few commits."""
    token = newer.until
    for _ in range(_BETWEEN if newer.runs else 0):
        if token is None or token == older.newest:
            break
        token = before.get(token)
    return token == older.newest
