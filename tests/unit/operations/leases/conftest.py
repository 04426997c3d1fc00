"""The hand-over of a bench's stream."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.kinesis.position import Position
from kinesis_assets.operations.leases.export_leases import hand_over
from kinesis_assets.operations.leases.import_leases import take_over
from kinesis_assets.operations.leases.lease import leases_of, signs_of_life
from kinesis_assets.table.run_files.pause import pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.operations.leases.export_leases import ExportedShard
    from kinesis_assets.operations.leases.import_leases import ImportedShard
    from support.bench import Bench
    from support.lease_items import LeaseItems


class HandOver:
    """A stream with a lease table.

    Attributes:
        meanwhile: What happens while signs of life are awaited, which takes no time.
        waits: The seconds of each of these waits.
    """

    def __init__(self, bench: Bench, leases: LeaseItems) -> None:
        self.bench, self.leases = bench, leases
        self.meanwhile: Callable[[], object] = lambda: None
        self.waits: list[float] = []

    def sleep(self, seconds: float) -> None:
        """Wait for signs of life."""
        self.waits.append(seconds)
        self.meanwhile()

    def take(
        self, *, default: str | None = None, apply: bool = True, **settings: Any
    ) -> dict[str, ImportedShard]:
        """Import the leases."""
        client = self.bench.client
        identity = client.describe().identity
        items = self.leases.table.items_at_rest(
            client.stream, partial(signs_of_life, identity=identity), seconds=10, sleep=self.sleep
        )
        found = leases_of(items, identity)
        return take_over(
            client,
            self.bench.table,
            found.by_shard,
            default=None if default is None else Position.parse(default),
            on_data_loss=settings.get("on_data_loss", "fail"),
            by="ann",
            apply=apply,
        )

    def hand(self, *, apply: bool = True, several_streams: bool = False) -> dict[str, ExportedShard]:
        """Export the positions."""
        return hand_over(
            self.bench.client,
            self.bench.table,
            self.leases.table,
            several_streams=several_streams,
            failover_seconds=10,
            sleep=self.sleep,
            apply=apply,
        )

    def pause(self) -> None:
        """Pause the stream."""
        pause(self.bench.table, reason="the KCL goes on", by="ann", at=datetime.now(UTC))


@pytest.fixture
def handed(bench: Bench, leases: LeaseItems) -> HandOver:
    """A stream that the test creates, a table that does not exist yet, and an empty lease table."""
    return HandOver(bench, leases)
