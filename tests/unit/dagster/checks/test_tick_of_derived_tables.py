"""The sensor of a stream evaluates the checks of its derived tables, and reports only what changed."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from kinesis_assets import build_kinesis_stream, derived_table, rollup
from kinesis_assets.dagster.checks.tick import derived_check_events, one_by_one, overdue_check_events
from kinesis_assets.dagster.derived_tables import checked_tables
from kinesis_assets.dagster.sensor.sensor_cursor import Cursor
from kinesis_assets.derive.derived_table import DeltaDerived
from kinesis_assets.errors import CallFailed, TickTooLong
from kinesis_assets.table.format import DerivedIn
from support.checked_tables import changed, checked_table
from support.mentions import assert_mentions
from support.plain_derived import PlainDerived

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

DAY = 86_400.0
KEY = dg.AssetKey("orders")
SILENT = ["lag", "continuity", "no_accepted_data_loss", "bad_records", "compaction_debt"]


class Ticks:
    """A derived table of another one, and the ticks that evaluate its checks.

    Attributes:
        tables: The tables with checks.
        remembered: What the checks remember.
        later: Seconds by which the clock of the ticks is ahead.
    """

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self.source = PlainDerived(folder / "source")
        self.source.append((1, 0, "a"))
        self.orders = PlainDerived(folder / "orders", source=self.source.id)
        self.orders.consume_all(self.source)
        self.tables = [checked_table("orders", self.orders.table.uri, self.source.table.uri)]
        self.remembered = {}
        self.later = 0.0

    def tick(self, **limits: Any) -> dict[str, bool]:
        """Report the results of a tick, and return whether each passed, by asset and name."""
        now = time.time() + self.later
        events, self.remembered = derived_check_events(
            self.instance, self.tables, self.remembered, now, **limits
        )
        for event in events:
            self.instance.report_runless_asset_event(event)
        return {f"{event.asset_key.to_user_string()}:{event.check_name}": event.passed for event in events}

    def add(self, name: str, uri: str) -> None:
        self.tables.append(changed(self.tables[0], key=dg.AssetKey(name), uri=uri))


@pytest.fixture
def ticks(tmp_path, instance) -> Ticks:
    return Ticks(tmp_path, instance)


GREEN = {
    "orders:lag": True,
    "orders:continuity": True,
    "orders:no_accepted_data_loss": True,
    "orders:compaction_debt": True,
}


def test_a_tick_reports_each_check_once(ticks):
    assert ticks.tick() == GREEN
    assert ticks.tick() == {}


def test_a_new_materialization_gets_the_results_again(ticks, daemon):
    ticks.tick()
    run = daemon.run({})
    daemon.report_event(run, dg.AssetMaterialization(KEY))
    daemon.end(run, dg.DagsterRunStatus.SUCCESS)
    assert ticks.tick() == GREEN


def test_a_source_is_opened_once_a_tick_for_all_tables_that_consume_it(ticks, tmp_path):
    opened = []

    def source_format():
        """Return the format of the source, which is another object for each table that consumes it."""

        def of(table):
            opened.append(table.uri)
            return DeltaDerived(table)

        return DerivedIn(of)

    ticks.add("copies", str(tmp_path / "orders"))
    ticks.tables = [changed(each, source_format=source_format()) for each in ticks.tables]
    ticks.tick()
    assert opened == [ticks.source.table.uri]


def test_a_lag_turns_the_check_red_and_consumption_turns_it_green(ticks):
    ticks.tick()
    ticks.source.append((2, 0, "a"))
    ticks.later = DAY
    assert ticks.tick() == {"orders:lag": False}
    ticks.orders.consume_all(ticks.source)
    assert ticks.tick() == {"orders:lag": True}


@pytest.mark.parametrize("invalid", ["uri", "source"])
def test_a_table_that_cannot_be_read_does_not_stop_the_others(ticks, caplog, invalid):
    broken = changed(ticks.tables[0], key=dg.AssetKey("broken"), **{invalid: "ftp://nowhere"})
    ticks.tables.insert(0, broken)
    with caplog.at_level(logging.WARNING):
        assert ticks.tick() == GREEN
    assert_mentions(caplog.text, "ftp://nowhere", "checks")


@pytest.mark.parametrize("invalid", ["uri", "source"])
def test_a_table_that_cannot_be_read_for_long_turns_the_lag_red_with_the_reason(ticks, invalid):
    ticks.tick()
    ticks.tables = [changed(ticks.tables[0], **{invalid: "ftp://nowhere"})]
    found = []
    for ticks.later in (800, 1000):
        found.append(ticks.tick())
    assert found == [{}, {"orders:lag": False}]
    (record,) = ticks.instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(KEY, "lag"), limit=1
    )
    assert_mentions(record.evaluation.description, "could not be evaluated for 17 min", "ftp://nowhere")


def test_a_table_that_no_tick_has_read_for_long_turns_the_lag_red(ticks):
    ticks.tick()
    error, found = TickTooLong("clicks", "the tick took longer than 45 s"), []
    for later in (800, 1000):
        events = overdue_check_events(
            ticks.instance, ticks.tables, ticks.remembered, time.time() + later, error
        )
        found.append([(event.check_name, event.passed) for event in events])
    assert found == [[], [("lag", False)]]
    assert_mentions(events[0].description, "could not be evaluated for 17 min", "longer than 45 s")


def test_a_table_that_can_be_read_again_turns_the_lag_green(ticks):
    readable = ticks.tables
    ticks.tables = [changed(readable[0], uri="ftp://nowhere")]
    ticks.tick()
    ticks.later = 1000
    assert ticks.tick() == {"orders:lag": False}
    ticks.tables = readable
    assert ticks.tick() == GREEN


@pytest.mark.parametrize("silent", ["table", "source"])
def test_a_table_whose_store_does_not_answer_leaves_the_others_their_time(ticks, silent):
    other = changed(ticks.tables[0], key=dg.AssetKey("silent"), source="s3://lake/silent")
    ticks.tables.insert(0, other)
    given_up = iter([silent == "table", silent == "source"])

    def share(reads):
        if next(given_up, False):
            return [TickTooLong("clicks", "the store does not answer"), *one_by_one(reads[1:])]
        return one_by_one(reads)

    assert ticks.tick(share=share) == GREEN
    assert ticks.remembered["orders"].read_at == ticks.remembered["orders"].at


def test_each_table_gets_its_turn(ticks):
    ticks.add("second", ticks.orders.table.uri)
    ticks.add("third", ticks.orders.table.uri)
    seen = []
    for _ in range(3):
        ticks.later += 1
        seen += [{name.partition(":")[0] for name in ticks.tick(max_tables=1)}]
    assert seen == [{"orders"}, {"second"}, {"third"}]


def test_a_table_that_no_longer_exists_is_forgotten(ticks):
    ticks.tick()
    ticks.tables.clear()
    assert ticks.tick() == {}
    assert ticks.remembered == {}


def test_a_tick_that_fails_reports_the_results_too(ticks, source, daemon, faults):
    source.create(1)
    daemon.checked = ticks.tables
    faults.fail("ListShards", status=400, code="AccessDeniedException")
    with pytest.raises(CallFailed):
        daemon.tick()
    check = dg.AssetCheckKey(KEY, "lag")
    assert daemon.instance.get_latest_asset_check_evaluation_record(check).evaluation.passed


def test_the_sensor_reports_the_results_and_remembers_them_in_its_cursor(ticks, source, daemon):
    source.create(1)
    daemon.checked = ticks.tables
    found = [event for event in daemon.tick().asset_events if getattr(event, "asset_key", None) == KEY]
    assert {event.check_name for event in found} == {name.partition(":")[2] for name in GREEN}
    remembered = Cursor.parse(daemon.cursor).derived_checks["orders"]
    assert remembered.at is not None
    assert remembered.files.small == 1


class TestDefinitions:
    """The tables are found in the definitions."""

    @pytest.fixture
    def assets(self, make_project, stream, tmp_path) -> dict[dg.AssetKey, dg.AssetsDefinition]:
        @derived_table(source=stream, table=str(tmp_path / "orders"), key=["id"], order_by=["at"])
        def orders(new):
            return new

        @rollup(source=stream, upstream="orders", table=str(tmp_path / "days"), by=["day"])
        def days(rows):
            return rows

        @derived_table(source="another", table=str(tmp_path / "other"))
        def of_another_stream(new):
            return new

        @derived_table(source=stream, upstream="unknown", table=str(tmp_path / "lost"))
        def of_unknown(new):
            return new

        @derived_table(source=stream, table=str(tmp_path / "silent"), checks=dict.fromkeys(SILENT, "off"))
        def silent(new):
            return new

        tables = dg.Definitions(assets=[orders, days, of_another_stream, silent])
        another = build_kinesis_stream("another", table=str(tmp_path / "another"))
        definitions = dg.Definitions.merge(make_project().definitions, another, tables)
        return {**definitions.get_repository_def().assets_defs_by_key, of_unknown.key: of_unknown}

    def test_those_of_the_stream_and_of_its_derived_tables_are(self, assets, project):
        with project.open_stream() as opened:
            found = {table.name: table for table in checked_tables(assets, opened)}
        assert found.keys() == {"orders", "days"}
        assert found["orders"].source.endswith("/table")  # the raw table
        assert found["days"].source.endswith("/orders")
        assert (found["orders"].consumption.unique, found["days"].consumption.unique) == (("id",), ())
