"""The mirror: the positions of a table as leases of the KCL, for tools and dashboards that read such a table.

A thread writes it after commits. Nothing reads it, and it never fails a run, nor delays its end by more than
some seconds: what could not be written is written after the next commit. What was written is recorded with
the table, for the check.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from kinesis_assets.errors import KinesisAssetsError, LeasesRefused, LeaseTableFailed, reason_of
from kinesis_assets.metrics import LEASE_TABLE_LAG, STREAM, measure
from kinesis_assets.operations.leases.lease import checkpoint_of, leases_of, write_lease
from kinesis_assets.operations.leases.starts import mismatch
from kinesis_assets.table.run_files.states import MirrorState, read_mirror_state, write_mirror_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.operations.leases.lease import Lease
    from kinesis_assets.operations.leases.lease_table import LeaseTable
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.raw_table import PositionedTable

_log = logging.getLogger(__name__)

_INTERVAL = 5.0
"""Seconds between two updates, however often runs commit."""

_SECONDS_TO_END = 10.0
"""How long the end of a run waits for the last update."""

_ATTEMPTS = 3
"""Attempts of an update, if another run has changed leases first."""


class LeaseMirror:
    """The mirror of a table. As a context, it ends with the last update of the block.

    Args:
        listing: A list of the stream's shards, for comparison with the leases.
        name: Name or ARN of the lease table.
        open_lease_table: Opens the lease table; called again after it failed.
        warn: Called with the reason of a failed update, if it is another one than before.
    """

    def __init__(
        self,
        table: PositionedTable,
        listing: StreamListing,
        name: str,
        open_lease_table: Callable[[], LeaseTable],
        *,
        warn: Callable[[str], object],
        clock: Clock,
    ) -> None:
        self._table = table
        self._identity = listing.summary.identity
        self._listed = listing.shards
        self._name = name
        self._open = open_lease_table
        self._warn = warn
        self._clock = clock
        self._lease_table: LeaseTable | None = None
        self._leases: dict[str, Lease] = {}
        self._stream_name: str | None = None
        self._warned: str | None = None
        self._committed = threading.Event()
        self._ended = threading.Event()
        self._began = clock.time()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease mirror", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._committed.set()
        self._clock.wait(self._done, _SECONDS_TO_END)
        if not self._done.is_set():
            late = LeaseTableFailed(
                f"an update did not end within {_SECONDS_TO_END:g} s",
                advice="Check that the run reaches DynamoDB, and the capacity of the table",
            )
            self._note_failure(late, self._began)

    def note_commit(self) -> None:
        """Let the thread write the newest positions."""
        self._committed.set()

    def _run(self) -> None:
        try:
            self._keep_updating()
        finally:
            self._done.set()

    def _keep_updating(self) -> None:
        while not self._ended.is_set():
            self._clock.wait(self._committed, None)
            self._committed.clear()
            self.update()
            self._clock.wait(self._ended, _INTERVAL)
        for _ in range(_ATTEMPTS):
            if self._committed.is_set():
                self._committed.clear()
                self.update()

    def update(self) -> None:
        """Write the newest positions. A failure is measured and recorded, and reported once."""
        began = self._began = self._clock.time()
        try:
            commit_id = self._update()
            if commit_id is not None:
                self._record(lambda state: state.after_success(commit_id))
                newest = self._newest_positions()
                if newest is not None and newest.commit_id != commit_id:
                    self._committed.set()  # the mirror of the other run may have recorded it before this one
        except Exception as error:  # noqa: BLE001  # the mirror must not fail a run, whatever happens
            self._lease_table = None
            self._note_failure(error, began)
        else:
            self._warned = None
            self._measure(0.0)

    def _note_failure(self, error: Exception, began: float) -> None:
        reason = f"lease table: {type(error).__name__}: {reason_of(error)}"
        if reason != self._warned:
            self._warn(f"{reason}. The run goes on, and the next commit updates the lease table")
        self._warned = reason
        text = str(error) if isinstance(error, KinesisAssetsError) else f"{type(error).__name__}: {error}"
        state = self._record(lambda state: state.after_failure(text, began))
        self._measure(self._clock.time() - (began if state is None else state.failing_since or began))

    def _measure(self, lag: float) -> None:
        measure(LEASE_TABLE_LAG, lag, {STREAM: self._identity.name})

    def _record(self, change: Callable[[MirrorState], MirrorState]) -> MirrorState | None:
        """Record the result of an attempt, which the check reads, and return it; None if that failed."""
        try:
            before = read_mirror_state(self._table, self._name)
            after = change(before)
            if after != before:
                write_mirror_state(self._table, after)
        except OSError as error:
            _log.warning("table %s: the state of its mirror cannot be written: %s", self._table.uri, error)
            return None
        return after

    def _newest_positions(self) -> StreamPositions | None:
        return self._table.snapshot().positions_of(self._identity.arn)

    def _update(self) -> int | None:
        """Write the newest positions, and return the commit; None if there is none yet."""
        for attempt in range(_ATTEMPTS + 1):
            lease_table = self._lease_table or self._read()
            # Read after the leases: what another run has written is not newer.
            positions = self._newest_positions()
            if positions is None:
                return None
            late = [
                shard_id
                for shard_id, recorded in positions.shards.items()
                if (lease := self._leases.get(shard_id)) is None
                or lease.stored != str(checkpoint_of(recorded))
            ]
            if not late:
                return positions.commit_id
            if attempt == _ATTEMPTS:
                break
            # All are written, whatever others change: two mirrors that write the same leases need one pass.
            written = [self._write(lease_table, shard_id, positions) for shard_id in late]
            if all(written):
                return positions.commit_id
            self._lease_table = None
        raise LeaseTableFailed(
            f"others change its leases: {len(late)} of them are old after {_ATTEMPTS} updates",
            advice="Give the mirror a lease table of its own",
        )

    def _read(self) -> LeaseTable:
        lease_table = self._open()
        leases = leases_of(lease_table.items(), self._identity)
        owned = {
            shard_id: f"{lease.owner} owns the lease, so the table is that of an application. Use another one"
            for shard_id, lease in leases.by_shard.items()
            if lease.owner is not None
        }
        foreign = {
            shard.shard_id: f"{reason}, or use another one"
            for shard in self._listed
            if (lease := leases.by_shard.get(shard.shard_id)) is not None
            # Another run may have finished the shard since it was listed as open.
            and (reason := mismatch(shard, replace(lease, ended=False)))
        }
        if owned or foreign:
            raise LeasesRefused(self._identity.name, owned | foreign)
        self._leases, self._stream_name = dict(leases.by_shard), leases.stream_name
        self._lease_table = lease_table
        return lease_table

    def _write(self, lease_table: LeaseTable, shard_id: str, positions: StreamPositions) -> bool:
        """Write a lease; return False if another writer has changed it first."""
        self._leases[shard_id], done = write_lease(
            lease_table,
            self._stream_name,
            shard_id,
            self._leases.get(shard_id),
            shards=positions.shards,
            checkpoint=checkpoint_of(positions.shards[shard_id]),
        )
        return done
