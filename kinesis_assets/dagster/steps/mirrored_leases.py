"""The mirror of a stream's positions in the lease table of its settings, while a run is in progress."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.operations.leases.lease_table import LeaseTable
    from kinesis_assets.operations.leases.mirror import LeaseMirror


class MirroredLeases:
    """The mirror of a stream, if its settings name a lease table. As a context, it ends with the last update.

    Args:
        listing: A list of the stream's shards, for comparison with the leases.
        warn: Called with the reason of a failed update.
    """

    def __init__(self, stream: OpenStream, listing: StreamListing, warn: Callable[[str], object]) -> None:
        self._mirror: LeaseMirror | None = None
        if (name := stream.settings.lease_table) is not None:
            from kinesis_assets.operations.leases.mirror import LeaseMirror  # noqa: PLC0415  # only mirrors need it

            self._mirror = LeaseMirror(
                stream.table.reopened(),  # its caches are not for several threads
                listing,
                name,
                lambda: open_lease_table(stream, name),
                warn=warn,
                clock=stream.client.settings.timing.clock,
            )
        self._context = self._mirror or nullcontext()

    def __enter__(self) -> Self:
        self._context.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(None, None, None)

    def note_commit(self) -> None:
        """Let the mirror write the newest positions."""
        if self._mirror is not None:
            self._mirror.note_commit()


_SECONDS_TO_ANSWER = 2.0
"""How long a call to the lease table is awaited. The update after the next commit tries again."""


def open_lease_table(stream: OpenStream, name: str) -> LeaseTable:
    """Open a lease table with the region and the credentials of a stream. A call is attempted once.

    Raises what `LeaseTable` raises.
    """
    from kinesis_assets.kinesis.settings import ClientSettings, ReadTiming  # noqa: PLC0415  # as above
    from kinesis_assets.operations.leases.lease_table import LeaseTable, region_of  # noqa: PLC0415

    region = region_of(name, stream.client.settings.region_name)
    timing = ReadTiming(connect_timeout=_SECONDS_TO_ANSWER, read_timeout=_SECONDS_TO_ANSWER)
    settings = ClientSettings(region, None, stream.kinesis.profile_name, timing=timing, role=stream.role)
    return LeaseTable(name, settings, attempts=1)
