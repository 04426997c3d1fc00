"""What the checks of a raw table advise, followed until they are green."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kinesis_assets.dagster.checks.commit_checks import check_no_accepted_data_loss, recorded_gaps
from kinesis_assets.dagster.checks.shard_checks import check_time_to_loss
from kinesis_assets.dagster.checks.table_checks import check_compaction_debt, file_facts
from kinesis_assets.dagster.settings.check_settings import (
    CompactionDebtCheck,
    NoAcceptedDataLossCheck,
    TimeToLossCheck,
)
from kinesis_assets.ingest.plan import gaps_to_fill
from kinesis_assets.operations.catch_up import jump
from support.catch_ups import fill_gaps
from support.derived import maintain_table
from support.mentions import assert_mentions

pytestmark = pytest.mark.slow

LOSS = NoAcceptedDataLossCheck()


def time_to_loss(bench):
    listing, snapshot = bench.client.listing(), bench.table.snapshot()
    shards = bench.positions.with_listing(listing).shards
    to_fill = gaps_to_fill(snapshot, listing.summary.identity, shards)
    return check_time_to_loss(TimeToLossCheck(), shards, bench.now, to_fill)


def data_loss(bench, check=LOSS):
    positions = bench.positions
    return check_no_accepted_data_loss(
        check, positions, recorded_gaps(positions, {}), bench.amendment, bench.now
    )


@pytest.fixture
def late(bench):
    """A stream of which record 2 expires in five hours."""
    bench.create()
    bench.put(1)
    bench.run()
    bench.put(2)
    bench.later(hours=19)
    return bench


def test_time_to_loss_is_green_once_the_shards_have_run(late):
    assert "Run these shards" in time_to_loss(late).description
    late.run()
    assert time_to_loss(late).passed


def test_with_a_longer_retention_the_records_stay_until_a_run_can_read_them(late):
    assert "increase the stream's retention" in time_to_loss(late).description
    late.set_retention(48)
    late.later(hours=20)
    assert "which this check waits for" in time_to_loss(late).description
    assert late.run().errors == {}
    assert (late.items, time_to_loss(late).passed) == ([1, 2], True)


@pytest.fixture
def interrupted(late):
    """A catch-up has skipped record 2, and was interrupted an hour ago."""
    late.put(3)
    late.later(minutes=2)
    late.put(4)
    jump(late.client, late.table, by="ann", apply=True)
    late.run()
    late.later(hours=1)
    return late


def test_a_catch_up_that_is_run_again_turns_its_checks_green(interrupted):
    assert_mentions(time_to_loss(interrupted).description, "the catch-up again")
    assert_mentions(data_loss(interrupted).description, "Run the catch-up again")
    assert fill_gaps(interrupted) == {}
    assert time_to_loss(interrupted).passed
    assert data_loss(interrupted).passed


def test_a_replay_of_what_the_stream_still_has_clears_the_gap(late):
    late.put(3)
    late.seek("LATEST")
    assert "Replay what the stream still has" in data_loss(late).description
    late.replay()
    assert data_loss(late).passed


def test_a_gap_whose_records_have_expired_is_accepted_with_a_later_time(late):
    late.later(hours=10)
    late.put(3)
    late.run(on_data_loss="continue")
    late.replay()
    assert "If the gap stays" in data_loss(late).description
    since = late.now + timedelta(seconds=1)
    assert data_loss(late, NoAcceptedDataLossCheck(since=since)).passed


def test_maintenance_merges_small_files(late):
    for number in range(4):
        late.put(number)
        late.run()
    late.later(days=1)

    def compaction_debt():
        snapshot = late.table.snapshot()
        sizes = ((str(file.partition["arrival_date"]), file.size) for file in snapshot.data_files())
        facts = file_facts(sizes, snapshot.version, late.now)
        return check_compaction_debt(CompactionDebtCheck(max_small_files=3), facts, "day")

    assert "maintenance job" in compaction_debt().description
    maintain_table(late)
    assert compaction_debt().passed
