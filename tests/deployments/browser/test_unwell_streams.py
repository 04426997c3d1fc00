"""What the Dagster UI shows of a stream that is not well: two of its eight shards fail, or it is paused."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import dagster as dg
import pytest
from playwright.sync_api import expect

from benchmarks.harness.waiting import wait_until
from kinesis_assets.demo.orders import STREAM
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.table.run_files.pause import pause, resume
from support.orders_deployment import EIGHT_SHARDS, RAW
from support.raw_checks import CHECKS
from support.stream_names import stream_key

pytestmark = pytest.mark.thorough

FAILING = [EIGHT_SHARDS[2], EIGHT_SHARDS[5]]
VIEW = {"width": 1400, "height": 1400}
COMMAND = "kinesis-assets resume --stream orders"
PAUSE = f"paused by ann since 2026-01-31T12:00:00Z: schema change. To continue, run `{COMMAND}`"


@pytest.fixture(scope="module")
def shards():
    return EIGHT_SHARDS


@pytest.fixture(scope="module")
def last_table():
    return RAW


@pytest.fixture(scope="module")
def shop_with_failures(running_shop):
    """The deployment after a run over all shards in which two of them were refused."""
    running_shop.put(400)
    for shard_id in FAILING:
        running_shop.faults.fail(status=400, code="KMSAccessDeniedException", shard_id=shard_id)
    assert running_shop.run_again().status is dg.DagsterRunStatus.FAILURE
    return running_shop


@pytest.fixture
def unwell(shop_with_failures, pages):
    """The pages of that deployment."""
    assert shop_with_failures.latest_run().is_failure
    pages.page.set_viewport_size(VIEW)
    return pages


def test_the_events_tab_shows_each_shard_of_a_run_and_then_the_totals(unwell):
    unwell.open_asset(RAW.path, "Events")
    totals, *of_shards = [event.inner_text() for event in unwell.events()[: len(EIGHT_SHARDS) + 1]]
    assert "shardId" not in totals
    assert sorted(re.findall(r"shardId-\d+", "".join(of_shards))) == EIGHT_SHARDS


def test_the_overview_shows_the_totals_of_the_stream_with_its_failing_shards(unwell):
    unwell.open_asset(RAW.path, "Overview")
    for name, value in {"open shards": 8, "failed shards": 2, "shards behind": 2}.items():
        expect(unwell.metadata(name)).to_contain_text(str(value))
    expect(unwell.metadata("worst lag (s)")).not_to_contain_text(re.compile(r"\D0$"))
    expect(unwell.metadata("rows")).to_have_count(0)


def test_a_check_is_red_that_names_a_failing_shard_and_its_reason(unwell):
    unwell.open_asset(RAW.path, "Checks")
    expect(unwell.page.get_by_text("Succeeded", exact=True)).to_have_count(len(CHECKS.reading_no_rows) - 1)
    unwell.page.get_by_text("every_shard_read", exact=True).first.click()
    expect(
        unwell.page.get_by_text(f"2 of 8 shards failed when last read, the first is {FAILING[0]}: ")
    ).to_be_visible()


def test_the_page_of_the_stream_shows_what_it_is(unwell):
    unwell.open_asset(stream_key(STREAM).path, "Overview")
    for name, value in {
        "ARN": f"arn:aws:kinesis:.*:stream/{STREAM}",
        "capacity mode": "provisioned",
        "retention (h)": "24",
        "open shards": "8",
    }.items():
        expect(unwell.metadata(name)).to_contain_text(re.compile(value))


@pytest.fixture(scope="module")
def paused_shop(running_shop):
    """The deployment after a tick of the sensor that has found the stream paused."""
    running_shop.faults.clear()
    table = PositionedTable(str(running_shop.table))
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    pause(table, reason="schema change", by="ann", at=at, command=COMMAND)

    def shows_pause():
        event = running_shop.instance.get_latest_materialization_event(stream_key(STREAM))
        return "paused" in event.asset_materialization.metadata

    running_shop.start_sensor()
    wait_until(shows_pause)
    yield running_shop
    resume(table)


@pytest.fixture
def paused(paused_shop, pages):
    """The pages of that deployment."""
    assert paused_shop.instance is not None
    pages.page.set_viewport_size(VIEW)
    return pages


def test_the_page_of_a_paused_stream_says_why_and_how_to_resume_it(paused):
    paused.open_asset(stream_key(STREAM).path, "Overview")
    expect(paused.metadata("paused")).to_contain_text(PAUSE)


def test_the_checks_of_a_paused_stream_are_warnings_that_say_so(paused):
    paused.open_asset(RAW.path, "Checks")
    for name in CHECKS.reading_no_rows:
        paused.page.get_by_text(name, exact=True).first.click()
        expect(
            paused.page.get_by_text("The stream is paused by ann since 2026-01-31T12:00:00Z").first
        ).to_be_visible()
    expect(paused.page.get_by_text("Failed", exact=True)).to_have_count(3)


def test_the_events_of_the_raw_table_say_that_the_stream_is_paused(paused):
    paused.open_asset(RAW.path, "Events")
    paused.events()[0].click()
    expect(paused.page.get_by_text("The stream is paused by ann")).to_be_visible()
