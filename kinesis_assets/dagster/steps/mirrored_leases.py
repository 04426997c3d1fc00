"""The mirror of a stream's positions in the lease table of its settings, while a run is in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.operations.leases.lease_table import LeaseTable
    from kinesis_assets.operations.leases.mirror import LeaseMirror


def lease_mirror_of(
    stream: OpenStream, listing: StreamListing, warn: Callable[[str], object]
) -> LeaseMirror | None:
    """Return the mirror of a stream, see `LeaseMirror`; None if its settings name no lease table."""
    name = stream.settings.lease_table
    if name is None:
        return None
    from kinesis_assets.operations.leases.mirror import LeaseMirror  # noqa: PLC0415  # only mirrors need it

    return LeaseMirror(
        stream.table.reopened(),  # its caches are not for several threads
        listing,
        name,
        lambda: open_lease_table(stream, name),
        warn=warn,
        clock=stream.client.settings.timing.clock,
    )


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
