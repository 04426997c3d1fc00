"""The checks of gaps, of small files and of bad records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import dagster as dg
import msgspec
import pytest

from kinesis_assets.dagster.checks.commit_checks import (
    check_no_accepted_data_loss,
    gaps_of_table,
    recorded_gaps,
)
from kinesis_assets.dagster.checks.table_checks import (
    DAMAGED,
    BadRecords,
    HourOfRecords,
    check_bad_records,
    check_compaction_debt,
    count_reported,
    file_facts,
)
from kinesis_assets.dagster.events.metadata import TOTAL_BAD_RECORDS, TOTAL_ROWS
from kinesis_assets.dagster.settings.check_settings import (
    BadRecordsCheck,
    CompactionDebtCheck,
    NoAcceptedDataLossCheck,
)
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.maintenance.steps import SMALL_BYTES
from kinesis_assets.table.positions.amendments import ClearedGap, next_amendment
from kinesis_assets.table.positions.positions import Predecessor, Seek
from support.attempts import STREAM
from support.mentions import assert_mentions
from support.stored_positions import GAP, positions_of, shard_after
from support.stream_names import raw_key

NOW = datetime(2026, 2, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
LOSS = NoAcceptedDataLossCheck()


def loss(positions, amendment=None, check=LOSS, archived=None, now=NOW):
    gaps = recorded_gaps(positions, archived or {})
    return check_no_accepted_data_loss(check, positions, gaps, amendment, now)


# Accepted data loss


def test_no_gap_passes():
    assert loss(positions_of(a=shard_after(1))).passed


def test_a_gap_fails_with_its_shard():
    result = loss(positions_of(a=shard_after(1, gaps=(GAP,)), b=shard_after(2)))
    assert (result.passed, result.severity) == (False, "ERROR")
    assert [record.data["shard"] for record in result.metadata["shards"].records] == ["a"]


def test_a_gap_that_a_replay_has_filled_does_not_count():
    cleared = {"a": (ClearedGap.of(GAP),)}
    amendment = next_amendment(None, batch_id=1, at=NOW, by=None, cleared=cleared)
    assert loss(positions_of(a=shard_after(1, gaps=(GAP,))), amendment).passed
    assert not loss(positions_of(b=shard_after(1, gaps=(GAP,))), amendment).passed


def test_gaps_before_an_accepted_time_do_not_count():
    positions = positions_of(a=shard_after(1, gaps=(GAP,)))
    after = GAP.until + timedelta(seconds=1)
    assert loss(positions, check=NoAcceptedDataLossCheck(since=after)).passed
    assert not loss(positions, check=NoAcceptedDataLossCheck(since=GAP.until)).passed


def test_a_gap_still_counts_once_its_shard_is_in_the_archive():
    gaps = recorded_gaps(positions_of(a=shard_after(1, gaps=(GAP,))), {})
    assert not loss(positions_of(b=shard_after(2)), archived=gaps).passed


def catching_up():
    """Positions of which a catch-up has skipped the last two hours, ten minutes ago."""
    gap = msgspec.structs.replace(GAP, since=NOW - 2 * HOUR, until=NOW - HOUR, to_fill=True)
    at, last = NOW - HOUR / 6, Position.after("1")
    jump = Seek(at=at, by="ann", before=last, after=last)
    return positions_of(a=shard_after(1, gaps=(gap,), seeks=(jump,), retention_hours=24))


def test_a_catch_up_that_goes_on_is_no_loss():
    result = loss(catching_up())
    assert (result.passed, result.metadata["ranges_to_fill"], result.metadata["gaps"]) == (True, 1, 0)
    assert "1 range that a catch-up has skipped" in result.description


def test_a_catch_up_that_was_interrupted_is_asked_for():
    result = loss(catching_up(), now=NOW + HOUR)
    assert (result.passed, result.metadata["gaps"]) == (False, 0)
    assert_mentions(result.description, "1 range", "catch-up", "again")
    step = next_amendment(None, batch_id=1, at=NOW + HOUR / 2, by=None)
    assert loss(catching_up(), step, now=NOW + HOUR).passed


def test_what_expires_before_a_catch_up_has_filled_it_is_a_loss():
    step = next_amendment(None, batch_id=1, at=NOW + 22 * HOUR, by=None)
    result = loss(catching_up(), step, now=NOW + 22 * HOUR)
    assert (result.passed, result.metadata["gaps"], result.metadata["ranges_to_fill"]) == (False, 1, 0)


class Archive:
    """The archive of a table, which counts how often it is read."""

    def __init__(self):
        self.newest, self.shards, self.reads = None, {}, 0

    def newest_segment(self, _positions):
        return self.newest

    def archived(self, _positions):
        self.reads += 1
        return self.shards


def test_a_gap_that_was_archived_since_the_archive_was_read_counts():
    archive, positions = Archive(), positions_of(b=shard_after(2))
    archive.newest, archive.shards = 6, {"c": shard_after(1)}
    gaps, newest = gaps_of_table(archive, positions, {}, None)
    assert gaps == {}
    archive.newest, archive.shards = 7, {"a": shard_after(1, gaps=(GAP,)), "c": shard_after(1)}
    gaps, newest = gaps_of_table(archive, positions, gaps, newest)
    assert (gaps, newest) == ({"a": (GAP,)}, 7)


def test_an_archive_that_has_not_changed_is_not_read_again():
    archive, positions = Archive(), positions_of(b=shard_after(2))
    archive.newest, archive.shards = 7, {"a": shard_after(1, gaps=(GAP,))}
    gaps, newest = gaps_of_table(archive, positions, {}, None)
    assert gaps_of_table(archive, positions, gaps, newest) == (gaps, newest)
    assert archive.reads == 1


def test_a_gap_that_a_seek_removed_does_not_count():
    gaps = recorded_gaps(positions_of(a=shard_after(1, gaps=(GAP,))), {})
    assert loss(positions_of(a=shard_after(1)), archived=gaps).passed


def test_unread_shards_of_a_deleted_stream_are_lost():
    older = msgspec.structs.replace(STREAM, created=STREAM.created - timedelta(days=9))
    predecessor = Predecessor(older, {"a": Position.after("5")})
    positions = msgspec.structs.replace(positions_of(b=shard_after(1)), predecessors=(predecessor,))
    result = loss(positions)
    assert (result.passed, result.metadata["gaps"]) == (False, 1)
    assert_mentions(result.description, f"{older.created:%Y-%m-%d}", "1 shard")
    assert loss(positions, check=NoAcceptedDataLossCheck(since=STREAM.created + timedelta(1))).passed


# Small files


def files(count, size=1000, day="2026-02-01"):
    return [(day, size)] * count


def test_too_many_small_files_fail():
    check = CompactionDebtCheck(max_small_files=5)
    facts = file_facts([*files(4), *files(2, day="2026-02-02")], 1, NOW)
    result = check_compaction_debt(check, facts, "day")
    assert (result.passed, result.severity, result.metadata["small files"]) == (False, "WARN", 6)
    assert [record.data["day"] for record in result.metadata["days"].records] == ["2026-02-01", "2026-02-02"]


def test_large_files_and_few_small_ones_pass():
    facts = file_facts([*files(5), *files(9, SMALL_BYTES)], 1, NOW)
    assert check_compaction_debt(CompactionDebtCheck(max_small_files=5), facts, "day").passed


# Bad records

CHECK = BadRecordsCheck(max_share=0.1)


@pytest.mark.parametrize(("bad", "passed"), [(0, True), (10, True), (11, False)])
def test_the_share_of_bad_records_is_bounded(bad, passed):
    counted = BadRecords(1, (HourOfRecords(1, 60, bad), HourOfRecords(2, 40, 0)))
    result = check_bad_records(CHECK, counted, DAMAGED)
    assert result.passed is passed
    assert result.metadata["share of bad records (%)"] == bad


def test_no_records_have_no_share():
    assert check_bad_records(CHECK, BadRecords(), DAMAGED).passed


def test_the_totals_of_runs_are_counted_once(instance):
    def report(rows, bad, partition=None):
        metadata = {TOTAL_ROWS: rows, TOTAL_BAD_RECORDS: bad}
        event = dg.AssetMaterialization(raw_key("s"), partition=partition, metadata=metadata)
        instance.report_runless_asset_event(event)

    now = datetime.now(UTC).timestamp()
    report(10, 1)
    report(500, 500, partition="a shard")
    first = count_reported(instance, raw_key("s"), BadRecords(), now)
    assert [(each.records, each.bad) for each in first.hours] == [(10, 1)]
    report(20, 2)
    second = count_reported(instance, raw_key("s"), first, now)
    assert sum(each.records for each in second.hours) == 30
    assert count_reported(instance, raw_key("s"), second, now) == second


def test_records_of_more_than_a_day_ago_are_forgotten(instance):
    now = datetime.now(UTC).timestamp()
    hour = int(now // 3600)
    old, recent = HourOfRecords(hour - 24, 9, 9), HourOfRecords(hour - 23, 1, 0)
    assert count_reported(instance, raw_key("s"), BadRecords(1, (old, recent)), now).hours == (recent,)
