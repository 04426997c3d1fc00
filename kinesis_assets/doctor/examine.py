"""The doctor: holds a table against its own log, the stream and Dagster's events, and says what is wrong.

It changes nothing, except that it adds the events that are missing if it is told to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any

from kinesis_assets.dagster.commit_links import Link
from kinesis_assets.dagster.event_log import fact, told_since, untold
from kinesis_assets.dagster.missing_events import MOST_FILES
from kinesis_assets.dagster.sensor_runs import DEAD
from kinesis_assets.doctor.chain import PROVEN_SINCE, breaks, unlike_the_log
from kinesis_assets.doctor.row_audit import Accounts, Brought, Rewind, differences, unproven_rows
from kinesis_assets.errors import (
    PositionsUnreadable,
    ShardListStale,
    StreamError,
    StreamRecreated,
    TableError,
)
from kinesis_assets.ingest.stale_list import check_list
from kinesis_assets.kinesis.relist import relisted
from kinesis_assets.table.commit_ids import drawn_at
from kinesis_assets.table.delta_log import folder_files, named_files
from kinesis_assets.table.log_entries import log_entries
from kinesis_assets.table.maintenance.pruning import CHAIN_KEPT, CHAIN_NEEDED
from kinesis_assets.table.ownership import application, past_application
from kinesis_assets.table.rewrites import rewrites_of
from kinesis_assets.table.row_predicates import passed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import date

    import dagster as dg

    from kinesis_assets.doctor.row_scan import Scan
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamIdentity, StreamListing
    from kinesis_assets.table.amendments import Past
    from kinesis_assets.table.log_entries import LogEntry
    from kinesis_assets.table.positions import StreamPositions
    from kinesis_assets.table.snapshot import TableSnapshot
    from kinesis_assets.table.table import PositionedTable

_AT_ONCE = 200
"""Commits whose events are looked for together."""


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    INFO = "info"
    """Worth knowing; nothing to do."""
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found.

    Attributes:
        check: Which check.
        level: How bad it is.
        sentence: What was found, and what to do.
        shard: Which shard; None for the whole table or stream.
    """

    check: str
    level: Level
    sentence: str
    shard: str | None = None


@dataclass(slots=True)
class _History:
    """What a walk along the chains came by.

    Attributes:
        links: The commits and the fills.
        older: Tokens of those that are too far back for the sensor to tell of.
        brought: What they brought.
        rewinds: What was taken out by hand.
        unproven: Batches of older versions, which do not tell what they brought.
        lowered: Tokens of the commits that lowered the floor, with the floor before.
        since: Before this token nothing is known; 0 if everything is.
        positions: The tokens of the positions' chain, newest first.
        pasts: The tokens of the chain of what was done behind them, likewise.
    """

    links: list[Link] = field(default_factory=list)
    older: set[int] = field(default_factory=set)
    brought: list[Brought] = field(default_factory=list)
    rewinds: list[Rewind] = field(default_factory=list)
    unproven: set[int] = field(default_factory=set)
    lowered: list[tuple[int, date]] = field(default_factory=list)
    since: int = 0
    positions: list[int] = field(default_factory=list)
    pasts: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Doctor:
    """What is examined, and with what.

    Attributes:
        client: The stream.
        table: Its table.
        instance: Where the events are; None leaves them alone.
        add_events: Add the events that are missing.
        read_rows: Reads the keys of all rows; None leaves the rows alone.
    """

    client: StreamClient
    table: PositionedTable
    instance: dg.DagsterInstance | None = None
    add_events: bool = False
    read_rows: Callable[[Sequence[tuple[str, int]]], Scan] | None = None

    def findings(self) -> Iterator[Finding]:
        """Every check's findings; a check that finds nothing wrong says so in one."""
        try:
            listing = relisted(self.client, lambda listing: listing)
        except StreamError as error:
            yield Finding("stream", Level.PROBLEM, f"{error}; nothing else was checked")
            return
        try:
            # As it is now, whatever this process read of it before.
            snapshot = self.table.reopened().snapshot()
            positions = snapshot.positions(listing.summary.identity, or_older=True)
            past = snapshot.past(listing.summary.identity)
        except StreamRecreated as error:
            yield Finding("stream", Level.PROBLEM, f"{error}; nothing else was checked")
            return
        except TableError as error:
            yield Finding("table", Level.PROBLEM, f"{error}; nothing else was checked")
            return
        yield Finding("table", Level.OK, f"{self.table.uri} can be read")
        if positions is None:
            yield Finding("positions", Level.INFO, "no run has been there yet")
            return
        yield Finding("positions", Level.OK, f"generation {positions.generation} can be read")
        yield from _or_ok("stream", _stream(positions, listing), "it is the one that the positions are of")
        yield from _floor(past, listing)
        try:
            recorded = snapshot.with_archive(positions)
        except TableError as error:
            yield Finding("positions", Level.PROBLEM, f"{error}; nothing else was checked")
            return
        yield from _or_ok("shards", self._shards(recorded, past, listing), "all that are unread are listed")
        history = _History()
        walk = [*_walk(snapshot, positions, history), *_walk_past(snapshot, past, history)]
        told = f"{len(history.links)} commits follow on each other without a break"
        yield from _or_ok("continuity", walk, told)
        entries = list(log_entries(self.table.files, snapshot.version))
        yield from _or_ok(
            "log",
            _log(history, entries, positions.identity),
            f"the newest {len(entries)} versions point at these commits in their order",
        )
        rows: list[Finding] = []
        if self.read_rows is not None:
            rows = list(_rows(self.read_rows, snapshot, past, history))
            yield from _or_ok("rows", rows, "each is there once, and they are what the commits brought")
        # Rows of commits that were pruned are of no shard: of those nothing more can ever be said.
        proven = self.read_rows is not None and not any(row.shard is not None for row in rows)
        yield from _or_ok(
            "restore",
            _restores(entries, past, proven=proven),
            "no version in the log restored or overwrote the table",
        )
        yield from self._runs_and_events(history, positions, past)
        yield from _or_ok("files", _files(self.table, snapshot), "the log names all files, and all are there")

    def _shards(
        self, positions: StreamPositions, past: Past | None, listing: StreamListing
    ) -> Iterator[Finding]:
        """The stream's present shards against the positions."""
        if positions.identity != listing.summary.identity:
            return

        def consistent(listing: StreamListing) -> StreamListing:
            check_list(listing, positions, self.table.uri)
            return listing

        try:
            yield from _shards(positions, past, relisted(self.client, consistent, listing))
        except ShardListStale as error:
            for shard_id, reason in error.reasons.items():
                yield Finding("shards", Level.PROBLEM, reason, shard_id)
        except StreamError as error:
            yield Finding("shards", Level.PROBLEM, str(error))

    def _runs_and_events(
        self, history: _History, positions: StreamPositions, past: Past | None
    ) -> Iterator[Finding]:
        """What the instance has of the stream's runs."""
        if self.instance is None:
            yield Finding("events", Level.INFO, "not checked: set DAGSTER_HOME to the instance's folder")
            return
        from kinesis_assets.dagster.dead_runs import dead_runs  # noqa: PLC0415  # with an instance alone

        dead: set[str] = set()
        try:
            dead = dead_runs(self.instance, self.client.stream, self.table)
        except OSError as error:
            yield Finding("runs", Level.PROBLEM, f"heartbeats cannot be listed: {error}")
        else:
            silent = [Finding("runs", Level.PROBLEM, DEAD % run_id) for run_id in sorted(dead)]
            yield from _or_ok("runs", silent, "the sensor considers no unfinished run dead")
        events = self._events(self.instance, history, positions, past, dead)
        yield from _or_ok("events", events, "each commit was told, and nothing else")

    def _events(
        self,
        instance: dg.DagsterInstance,
        history: _History,
        positions: StreamPositions,
        past: Past | None,
        dead: Collection[str],
    ) -> Iterator[Finding]:
        stream = self.client.stream
        links = iter(sorted(history.links, key=lambda link: link.token))
        older: list[Link] = []
        while some := list(islice(links, _AT_ONCE)):
            found, unfinished = untold(instance, stream, some, dead)
            for link in unfinished:
                told = f"batch {link.batch_id}: its run {link.by} is unfinished"
                way_out = "if its process no longer exists, terminate it in the UI"
                yield Finding("events", Level.INFO, f"{told}; {way_out}")
            for link, shard_ids in found:
                if link.token in history.older:
                    older.append(link)
                    continue
                for shard_id in shard_ids:
                    yield self._missing(instance, link, shard_id)
        if older:
            told = f"{len(older)} commits up to batch {older[-1].batch_id} were never told to this instance"
            yield Finding("events", Level.INFO, f"{told}; only of the newest {MOST_FILES} events are added")
        yield from self._extra(instance, history, positions, past)

    def _missing(self, instance: dg.DagsterInstance, link: Link, shard_id: str) -> Finding:
        told = f"batch {link.batch_id}: {link.landed[shard_id].rows} rows were committed and never told"
        if not self.add_events:
            return Finding("events", Level.PROBLEM, f"{told}; the sensor or the doctor adds it", shard_id)
        instance.report_runless_asset_event(link.event(self.client.stream, shard_id))
        return Finding("events", Level.INFO, f"{told}; the event is added", shard_id)

    def _extra(
        self,
        instance: dg.DagsterInstance,
        history: _History,
        positions: StreamPositions,
        past: Past | None,
    ) -> Iterator[Finding]:
        """Events of rows that no commit brought."""
        proven = {
            link.told(shard_id): landed for link in history.links for shard_id, landed in link.landed.items()
        }
        oldest = min((link.token for link in history.links), default=positions.token)
        since = drawn_at(oldest) if history.since else 0.0
        extra = []
        for event in told_since(instance, self.client.stream, since):
            batch_id, rows, shard_id = (
                *(fact(event, name) for name in ("batch_id", "rows")),
                event.partition,
            )
            if not isinstance(batch_id, str) or not batch_id.isdecimal() or not rows or shard_id is None:
                continue
            landed = proven.get((batch_id, shard_id))
            if landed is not None:
                checksum = fact(event, "checksum")
                if rows != landed.rows or checksum not in {None, str(landed.checksum)}:
                    told = f"batch {batch_id}: its event tells of {rows} rows, the commit of {landed.rows}"
                    yield Finding(
                        "events", Level.PROBLEM, f"{told}, or of others; trust the commit", shard_id
                    )
            elif int(batch_id) >= history.since and int(batch_id) not in history.unproven:
                extra.append((batch_id, shard_id, rows))
        known = self._committed_since(positions, past) if extra else set()
        for batch_id, shard_id, rows in extra:
            if (batch_id, shard_id) not in known:
                told = f"batch {batch_id}: an event tells of {rows} rows, but no commit brought any"
                yield Finding(
                    "events", Level.PROBLEM, f"{told}; was the table set back or replaced?", shard_id
                )

    def _committed_since(self, positions: StreamPositions, past: Past | None) -> set[tuple[str, str]]:
        """What was committed while this looked."""
        snapshot = self.table.snapshot()
        found: set[tuple[str, str]] = set()
        newest = snapshot.positions(positions.identity, or_older=True)
        while newest is not None and newest.token > positions.token:
            link = Link.of_positions(newest)
            found |= {link.told(shard_id) for shard_id in link.landed}
            newest = None if link.previous is None else snapshot.positions_at(link.previous)
        last = snapshot.past(positions.identity)
        while last is not None and (past is None or last.token > past.token):
            link = Link.of_past(last)
            found |= {link.told(shard_id) for shard_id in link.landed}
            last = None if link.previous is None else snapshot.past_at(link.previous)
        return found


def row(stream: str, finding: Finding) -> dict[str, Any]:
    """A finding as the command prints it."""
    return {
        "stream": stream,
        "check": finding.check,
        "shard": finding.shard,
        "level": str(finding.level),
        "sentence": finding.sentence,
    }


def _or_ok(check: str, findings: Iterable[Finding], sentence: str) -> Iterator[Finding]:
    """The findings; where there is no problem and nothing else to know, that all is well."""
    found = False
    for finding in findings:
        found = True
        yield finding
    if not found:
        yield Finding(check, Level.OK, sentence)


def _stream(positions: StreamPositions, listing: StreamListing) -> Iterator[Finding]:
    created, now = positions.identity.created, listing.summary.identity.created
    if created != now:
        yield Finding(
            "stream",
            Level.PROBLEM,
            f"the positions are of the stream created at {created:%Y-%m-%dT%H:%M:%SZ}, but it was deleted "
            f"and created again at {now:%Y-%m-%dT%H:%M:%SZ}; see on_recreated",
        )


def _floor(past: Past | None, listing: StreamListing) -> Iterator[Finding]:
    """The first arrival date that the table keeps, against the service's clock."""
    today = listing.summary.service_time.date()
    if past is not None and past.floor is not None and past.floor > today:
        told = f"the floor is {past.floor}, in the future: a maintenance with a wrong clock raised it"
        way_out = "lower it with `kinesis-assets maintain --lower-floor`, then replay what the stream has"
        yield Finding("floor", Level.PROBLEM, f"{told}; {way_out}")


def _shards(positions: StreamPositions, past: Past | None, listing: StreamListing) -> Iterator[Finding]:
    """The stream's present shards against the positions, which they do not contradict."""
    listed = {shard.shard_id for shard in listing.shards}
    now = listing.summary.service_time
    for shard_id in sorted(listed - positions.shards.keys()):
        yield Finding("shards", Level.INFO, "new: no run has seen it yet", shard_id)
    for shard_id, shard in positions.shards.items():
        for gap in shard.gaps:
            filled = past is not None and past.has_cleared(shard_id, gap)
            told = "a gap was recorded, and a replay has filled it" if filled else "a gap is recorded"
            yield Finding("shards", Level.INFO, f"{told}: {gap}", shard_id)
        if shard.finished:
            continue
        if shard_id not in listed:
            told = f"no longer listed, and read only up to {shard.position}; its next run tells what is lost"
            yield Finding("shards", Level.PROBLEM, told, shard_id)
        elif shard.safe_until is not None and shard.safe_until <= now:
            told = f"unread records may have expired since {shard.safe_until:%Y-%m-%dT%H:%M:%SZ}"
            yield Finding("shards", Level.PROBLEM, f"{told}; run it, and see on_data_loss", shard_id)


def _walk(snapshot: TableSnapshot, newest: StreamPositions, history: _History) -> Iterator[Finding]:
    """The chain of positions, from the newest back to where it was pruned."""
    now, read = snapshot.with_archive(newest), 0
    while True:
        try:
            before = None
            if now.previous is not None:
                before = snapshot.with_archive(snapshot.positions_at(now.previous))
        except PositionsUnreadable as error:
            yield from _pruned(error, now.previous or 0, history, now.token)
            before = None
        history.positions.append(now.token)
        _keep(history, Link.of_positions(now), read)
        read += 1
        _account(history, before, now)
        if now.adopted:  # of older rows no commit is known
            history.since = max(history.since, now.token)
        if before is None:
            return
        for shard_id, sentence in breaks(before, now):
            yield Finding("continuity", Level.PROBLEM, f"generation {now.generation}: {sentence}", shard_id)
        now = before


def _keep(history: _History, link: Link, read: int) -> None:
    """A commit, after so many newer ones of its chain."""
    history.links.append(link)
    if read >= MOST_FILES:
        history.older.add(link.token)


def _account(history: _History, before: StreamPositions | None, now: StreamPositions) -> None:
    """What one commit brought and took out."""
    if now.format < PROVEN_SINCE:
        history.unproven.add(now.batch_id)
    shards = {} if before is None else before.shards
    for shard_id, landed in now.landed.items():
        # Nothing can have arrived before there was a stream.
        arrived = (shards[shard_id].last_arrival if shard_id in shards else None) or now.identity.created
        through = now.shards[shard_id].last_arrival if shard_id in now.shards else None
        history.brought.append(
            Brought(
                token=now.token,
                batch_id=now.batch_id,
                shard_id=shard_id,
                landed=landed,
                arrived_from=arrived.date(),
                arrived_through=None if through is None else through.date(),
            )
        )
    for shard_id, shard in now.shards.items():
        known = len(shards[shard_id].seeks) if shard_id in shards else len(shard.seeks)
        history.rewinds += [
            Rewind(now.token, shard_id, passed(seek.after), seek.rows_removed)
            for seek in shard.seeks[known:]
            if seek.rows_removed
        ]


def _walk_past(snapshot: TableSnapshot, newest: Past | None, history: _History) -> Iterator[Finding]:
    """The chain of what was done behind the positions."""
    now, read = newest, 0
    while now is not None:
        history.pasts.append(now.token)
        _keep(history, Link.of_past(now), read)
        read += 1
        # What the table's retention has taken is never filled in again.
        history.brought += [
            Brought(now.token, now.batch_id, shard_id, landed, arrived_from=now.floor, filled=True)
            for shard_id, landed in now.filled.items()
        ]
        try:
            before = None if now.previous is None else snapshot.past_at(now.previous)
        except PositionsUnreadable as error:
            yield from _pruned(error, now.previous or 0, history, now.token)
            return
        if now.lowered_from is not None:
            history.lowered.append((now.token, now.lowered_from))
            told = f"the floor was lowered from {now.lowered_from} to {now.floor} by {now.by or 'someone'}"
            yield Finding("continuity", Level.INFO, f"{told} at {now.at:%Y-%m-%dT%H:%M:%SZ}")
        floor = None if before is None else before.floor
        if floor is not None and floor != now.lowered_from and (now.floor is None or now.floor < floor):
            yield Finding("continuity", Level.PROBLEM, f"the floor went back from {floor} to {now.floor}")
        now = before


def _pruned(error: PositionsUnreadable, token: int, history: _History, oldest: int) -> Iterator[Finding]:
    """A chain's end that is not its beginning."""
    history.since = max(history.since, oldest)
    age = datetime.now(UTC) - datetime.fromtimestamp(drawn_at(token), UTC)
    if age >= CHAIN_KEPT:
        return
    if age < CHAIN_NEEDED:
        yield Finding("continuity", Level.PROBLEM, f"{error}; it is too young to have been pruned")
    else:
        told = f"{error}, unless maintenance pruned it since the commits were many; of older ones nothing"
        yield Finding("continuity", Level.INFO, f"{told} is told here")


def _rows(
    read_rows: Callable[[Sequence[tuple[str, int]]], Scan],
    snapshot: TableSnapshot,
    past: Past | None,
    history: _History,
) -> Iterator[Finding]:
    """All rows, against what the commits say."""
    read = read_rows([(file.path, file.size) for file in snapshot.standing_files()])
    floor: date | None = None if past is None else past.floor
    accounts = Accounts(
        history.brought, history.rewinds, floor, history.unproven, history.since, history.lowered
    )
    for each in differences(accounts, read.counted):
        level = Level.PROBLEM if each.certain else Level.INFO
        yield Finding("rows", level, each.sentence, each.shard_id)
    for shard_id, records in sorted(read.doubled.items()):
        yield Finding("rows", Level.PROBLEM, f"{records} records are there more than once", shard_id)
    if unproven := unproven_rows(accounts, read.counted):
        told = f"{unproven} rows are of commits whose proof was pruned or never kept"
        yield Finding("rows", Level.INFO, f"{told}: only that each is there once was checked")


def _log(history: _History, entries: Sequence[LogEntry], identity: StreamIdentity) -> Iterator[Finding]:
    """The chains against the transactions that the log still has."""
    for chain, name in (
        (history.positions, application(identity)),
        (history.pasts, past_application(identity)),
    ):
        for sentence in unlike_the_log(chain, entries, name):
            yield Finding("log", Level.PROBLEM, sentence)


def _restores(entries: Sequence[LogEntry], past: Past | None, *, proven: bool) -> Iterator[Finding]:
    accepted = -1 if past is None or past.accepted is None else past.accepted
    for rewrite in (rewrite for entry in entries for rewrite in rewrites_of(entry)):
        told = f"{rewrite} replaced rows, but not the positions"
        if proven:
            yield Finding(
                "restore", Level.INFO, f"{told}; the rows are what the commits brought all the same"
            )
        elif rewrite.version <= accepted:
            yield Finding("restore", Level.INFO, f"{told}; it was accepted by hand")
        else:
            todo = "find what is missing with --rows, replay it, and accept the rest with adopt"
            yield Finding("restore", Level.PROBLEM, f"{told}: {todo}")


def _files(table: PositionedTable, snapshot: TableSnapshot) -> Iterator[Finding]:
    """The folder against the log."""
    standing = {file.path: file for file in snapshot.standing_files()}
    # The folder first: a file that is committed meanwhile is then named.
    folder = list(folder_files(table.files))
    named = named_files(table.files)
    if unnamed := [file for file in folder if file.path not in named]:
        first = min(unnamed, key=lambda file: file.modified)
        age = timedelta(seconds=int((datetime.now(UTC) - first.modified).total_seconds()))
        told = f"{len(unnamed)} files of {sum(file.size for file in unnamed)} bytes are in no version"
        oldest = f"the oldest, {first.path}, is {age} old"
        yield Finding("files", Level.INFO, f"{told}; {oldest}. Maintenance deletes them in time")
    there: Mapping[str, int] = {file.path: file.size for file in folder}
    for path, named_file in standing.items():
        if path not in there:
            told = f"{path}: {named_file.rows} rows, named by the log and not there"
            yield Finding("files", Level.PROBLEM, f"{told}; restore it, or see with --rows what to replay")
        elif there[path] != named_file.size:
            told = f"{path}: {there[path]} bytes, but the log says {named_file.size}"
            yield Finding("files", Level.PROBLEM, f"{told}; restore it")
