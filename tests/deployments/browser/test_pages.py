"""What a person sees and does in the Dagster UI: the outcome is verified in the table and in the instance.

The tests are in the order in which a person would look around. None needs another one.
"""

from __future__ import annotations

import re

import dagster as dg
import pytest
from deltalake import DeltaTable
from playwright.sync_api import expect

from benchmarks.harness.waiting import wait_until
from kinesis_assets.dagster.graceful_stop import NOTHING_READ
from kinesis_assets.dagster.stream_names import StreamNames, op_key
from kinesis_assets.demo.orders import STREAM
from support.daemon import FIRST, LAST
from support.orders_deployment import RAW, SHARDS
from support.raw_checks import CHECKS

Status = dg.DagsterRunStatus
SHARD = SHARDS[1]
REPLAY = StreamNames(STREAM).job("replay")


def test_the_lineage_shows_the_stream_its_raw_table_and_the_tables_below(pages, picture):
    pages.page.set_viewport_size({"width": 2000, "height": 600})
    pages.hide_navigation()
    graph = pages.open_lineage("revenue_by_day")
    for name in ("orders", "orders_raw", "latest_orders", "revenue_by_day"):
        expect(graph.get_by_text(name, exact=True)).to_have_count(1)
    expect(graph.locator("path[marker-end]")).to_have_count(3)
    expect(graph.get_by_text("4 partitions")).to_have_count(2)
    expect(graph.get_by_text("Loading")).to_have_count(0)
    picture("lineage", graph.locator("foreignObject").first, graph.get_by_text("Delta Lake").last)


def test_a_shard_that_is_materialized_alone_lands_and_no_other_one_moves(pages, shop, picture):
    shop.put(200)
    before, latest = shop.landed(), shop.latest_run()

    pages.open_asset(RAW.path, "Partitions")
    pages.materialize(SHARD)
    assert shop.ended_run(shop.new_run(latest)).status is Status.SUCCESS

    assert shop.landed() == {**before, SHARD: shop.acknowledged[SHARD]}
    pages.page.set_viewport_size({"width": 1560, "height": 910})
    pages.open_asset(RAW.path, "Partitions")
    pages.page.get_by_text(SHARD).first.click()
    exact = pages.page.get_by_role("row").filter(has_text="last_sequence_number")
    expect(exact).to_contain_text(shop.acknowledged[SHARD][-1])
    picture("materialization")


def test_all_shards_are_materialized_by_one_run(pages, shop):
    shop.put(200)
    latest = shop.latest_run()

    pages.open_asset(RAW.path, "Partitions")
    pages.materialize()
    run = shop.ended_run(shop.new_run(latest))

    assert run.status is Status.SUCCESS
    assert (run.tags[FIRST], run.tags[LAST]) == (SHARDS[0], SHARDS[-1])
    assert shop.landed() == shop.acknowledged


def test_the_checks_are_green_until_shards_are_late(pages, shop, picture):
    red, green = (pages.page.get_by_text(name, exact=True) for name in ("Failed", "Succeeded"))
    pages.open_asset(RAW.path, "Checks")
    expect(green).to_have_count(len(CHECKS.reading_no_rows))
    expect(red).to_have_count(0)
    latest = shop.latest_run()
    shop.clock.advance(hours=0.25)

    pages.page.get_by_role("button", name="Execute all").click()
    assert shop.ended_run(shop.new_run(latest)).status is Status.SUCCESS

    pages.page.set_viewport_size({"width": 1400, "height": 810})
    pages.open_asset(RAW.path, "Checks")
    pages.page.get_by_text("lag", exact=True).first.click()
    expect(green).to_have_count(len([*CHECKS.defined]) - 1)
    expect(red).to_have_count(2)  # in the list, and in the details of the lag
    expect(
        pages.page.get_by_text("4 shards may have unread records that are older than 5 min")
    ).to_be_visible()
    picture("checks")


def test_terminate_commits_what_was_read_and_cancels_the_run(pages, shop):
    shop.put(1200)
    before, latest = shop.landed()[SHARD], shop.latest_run()
    shop.faults.page_size(1)
    shop.faults.delay(2.0, after=5)  # to read all pages takes as long as anything is waited for

    pages.open_asset(RAW.path, "Partitions")
    pages.materialize(SHARD)
    run = shop.new_run(latest)
    pages.open_run(run.run_id)
    wait_until(lambda: shop.faults.count("GetRecords") > 5)
    pages.page.get_by_role("button", name=re.compile("Terminate$")).click()
    pages.page.get_by_role("button", name="Terminate 1 run").click()
    pages.expect_run_status("Canceled")

    assert shop.ended_run(run).status is Status.CANCELED
    landed = shop.landed()[SHARD]
    assert len(before) < len(landed) < len(shop.acknowledged[SHARD])
    assert landed == shop.acknowledged[SHARD][: len(landed)]
    assert shop.materialized_rows(run) == {SHARD: len(landed) - len(before)}


@pytest.mark.thorough
def test_the_error_card_of_a_run_that_is_terminated_before_it_reads_says_so(pages, shop):
    before, latest = shop.landed(), shop.latest_run()
    shop.faults.before("ListShards", shop.terminate_latest_run, times=1)
    shop.faults.stall("ListShards")

    pages.open_asset(RAW.path, "Partitions")
    pages.materialize(SHARD)
    pages.open_run(shop.new_run(latest).run_id)

    pages.expect_run_status("Canceled")
    card = re.compile(rf"^[\w.]+\.DagsterExecutionInterruptedError: {NOTHING_READ}")
    expect(pages.page.get_by_text(card).last).to_be_visible()
    assert shop.landed() == before


def test_a_failing_shard_is_shown_beside_the_good_ones(pages, shop):
    shop.put(200)
    before, latest = shop.landed(), shop.latest_run()
    shop.faults.fail(status=400, code="KMSAccessDeniedException", shard_id=SHARD)

    pages.open_run(shop.first_run().run_id)
    pages.page.get_by_role("button", name=re.compile("^Re-execute")).click()
    run = shop.ended_run(shop.new_run(latest))

    assert run.status is Status.FAILURE
    assert shop.landed() == {**shop.acknowledged, SHARD: before[SHARD]}
    pages.open_asset(RAW.path, "Partitions")
    expect(pages.page.get_by_text("Failed (1)")).to_be_visible()
    expect(pages.page.get_by_text("Materialized (3)")).to_be_visible()
    pages.open_run(run.run_id)
    pages.page.get_by_role("button", name="View full message").last.click()
    card = pages.page.get_by_role("dialog").get_by_role("heading").first
    reason = f"1 of the run's shards did not reach the end of their ranges: ReadFailed: {SHARD}: "
    expect(card).to_have_text(re.compile(rf"^[\w.]+ShardsNotCommitted: stream {STREAM}: {reason}"))


@pytest.mark.thorough
def test_a_replay_is_launched_with_a_config_from_the_launchpad(pages, shop):
    missing = shop.landed()[SHARD][5]
    deleted = DeltaTable(shop.table).delete(f"sequence_number = '{missing}'")
    assert deleted["num_deleted_rows"] == 1
    before = shop.landed()

    pages.open_job(REPLAY)
    run_id = pages.launch_job(f"ops:\n  {op_key(REPLAY)}:\n    config:\n      start: TRIM_HORIZON\n")
    pages.expect_run_status("Success")

    assert shop.instance.get_run_by_id(run_id).job_name == REPLAY
    assert shop.landed() == {**before, SHARD: sorted([*before[SHARD], missing], key=int)}


def test_the_numbers_of_the_events_are_plotted(pages, picture):
    pages.page.set_viewport_size({"width": 1900, "height": 3300})
    pages.hide_navigation()
    pages.open_asset(RAW.path, "Overview")
    pages.page.get_by_role("button", name="Plots").click()
    pages.page.get_by_role("button", name="Events").click()
    size, speed = pages.plot("size (MB)"), pages.plot("speed (MB/s)")
    for plot in (size, speed):
        expect(plot.locator("canvas")).to_be_visible()
    picture("plots", size, speed)
