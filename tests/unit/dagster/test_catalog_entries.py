"""Ticks register the tables of a stream in moto's Glue; tables in a bucket of moto, over HTTP."""

from __future__ import annotations

import time
from functools import partial
from uuid import uuid4

import dagster as dg
import msgspec
import pytest

from benchmarks.harness.waiting import SECONDS
from benchmarks.servers.bucket import create_bucket
from kinesis_assets import build_kinesis_stream, derived_table
from kinesis_assets.dagster import catalog_entries
from kinesis_assets.dagster.catalog_entries import (
    CatalogEntries,
    entries_without_asset,
    entry_findings,
    registered_tables,
)
from kinesis_assets.dagster.checks.tick import derived_check_events
from kinesis_assets.dagster.settings.check_settings import DerivedChecks
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.metrics import CATALOG_LAG
from kinesis_assets.operations.catalog.registration import Registrar
from kinesis_assets.table.run_files.states import read_catalog_state, write_catalog_state
from support.catalog_tables import Database
from support.checked_tables import changed, checked_table
from support.fixtures.metrics import Measurements
from support.plain_derived import PlainDerived
from support.shard_ids import A
from support.stream_names import io_manager_key

pytestmark = [pytest.mark.slow, pytest.mark.slow]  # starts moto

OFF = dict.fromkeys(
    ["lag", "continuity", "no_accepted_data_loss", "bad_records", "compaction_debt", "no_duplicates"], "off"
)
ONLY_CATALOG = DerivedChecks.parse({**OFF, "unmatched_records": "off"})
COLUMNS = {"key": "bigint", "value": "bigint", "_batch_id": "bigint", "part": "string"}


@pytest.fixture
def lake(moto, monkeypatch):
    """A folder of a bucket, to which the environment leads, as it does to Glue."""
    for service in ("S3", "GLUE"):
        monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service}", moto)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    return f"{create_bucket(moto)}/{uuid4()}"


class Ticks:
    """Derived tables of a stream that are registered, and the ticks that register them.

    Attributes:
        checked: The tables by name.
        reasons: Why the check of each table is red, by name; None if it is green.
        observed: The descriptions of the observations of the last tick, by name.
    """

    def __init__(self, lake, database, instance):
        self.lake, self.database, self.instance = lake, database, instance
        self.source = PlainDerived(f"{lake}/source")
        stream = build_kinesis_stream("clicks", table=f"{lake}/raw")
        self.opened = stream.resources[io_manager_key("clicks")].opened
        self.checked, self.reasons, self.observed = {}, {}, {}

    def add(self, name, /, **catalog):
        """Create a table with an entry of its name."""
        uri = f"{self.lake}/{name}"
        table = PlainDerived(uri, source=self.source.id)
        entry = {"database": self.database.name, **catalog}
        self.checked[name] = checked_table(name, uri, self.source.table.uri, ONLY_CATALOG, catalog=entry)
        return table

    def tick(self):
        """Evaluate a tick."""
        entries = CatalogEntries(self.opened)
        events, _ = derived_check_events(
            self.instance, [*self.checked.values()], {}, time.time(), entries=entries
        )
        for event in events:
            self.instance.report_runless_asset_event(event)
            reason = None if event.passed else event.description
            self.reasons[event.asset_key.to_user_string()] = reason
        self.observed = {
            event.asset_key.to_user_string(): event.description for event in entries.taken_events()
        }

    def let_time_pass(self, **changes):
        """Let the next tick compare all entries, and change what is recorded of them."""
        for name, each in self.checked.items():
            table = DerivedTable(each.uri)
            catalog = each.consumption.settings.catalog
            state = read_catalog_state(table, f"{catalog['database']}.{catalog.get('name', name)}")
            write_catalog_state(table, msgspec.structs.replace(state, at=0.0, **changes))


@pytest.fixture
def ticks(lake, moto, instance, monkeypatch):
    """Ticks that a slow machine does not end early."""
    monkeypatch.setattr(catalog_entries, "Registrar", partial(Registrar, seconds=SECONDS))
    return Ticks(lake, Database(moto), instance)


def test_of_eight_tables_six_are_registered_and_two_say_why_they_are_not(ticks):
    names = [f"orders_{number}" for number in range(8)]
    ticks.database.create("orders_3", "s3://lake/crawled/", UPDATED_BY_CRAWLER="nightly")
    for name in names:
        ticks.add(name, **({"database": "nowhere"} if name == "orders_5" else {}))
    ticks.tick()
    red = {name: reason for name, reason in ticks.reasons.items() if reason is not None}
    assert red.keys() == ticks.observed.keys() & {"orders_3", "orders_5"} == {"orders_3", "orders_5"}
    assert f"cannot be registered as {ticks.database.name}.orders_3: " in red["orders_3"]
    assert "which the crawler nightly made" in red["orders_3"]
    assert "aws glue create-database --database-input Name=nowhere" in red["orders_5"]
    assert red["orders_5"].endswith("engines that use it may see old columns")
    assert ticks.database.columns("orders_3") == {"col": "array<string>"}
    assert {name for name in names if ticks.reasons[name] is None} == {*names} - red.keys()
    assert ticks.database.columns("orders_7") == COLUMNS

    ticks.tick()
    assert ticks.observed == {}  # they are tried again later
    ticks.checked["orders_5"] = changed(ticks.checked["orders_5"], catalog={"database": ticks.database.name})
    ticks.tick()
    assert ticks.reasons["orders_5"] is None
    assert ticks.database.columns("orders_5") == COLUMNS


def test_a_column_that_was_added_is_in_the_entry_after_the_next_tick(ticks):
    table = ticks.add("orders")
    ticks.tick()
    note = {"name": "Note", "type": "timestamp_ntz", "nullable": True, "metadata": {}}
    table.table.snapshot().add_columns([note])
    ticks.tick()
    assert ticks.database.columns("orders") == {**COLUMNS, "note": "timestamp"}


def test_the_properties_of_a_table_are_in_its_entry(ticks):
    table = ticks.add("orders")
    ticks.tick()
    table.table.snapshot().set_properties({"delta.checkpointInterval": "7"})
    ticks.tick()
    assert ticks.database.entry("orders")["Parameters"]["delta.checkpointInterval"] == "7"


def test_a_service_that_is_down_turns_the_check_red_and_the_tick_goes_on(
    ticks, monkeypatch, moto, metric_reader
):
    def lag():
        measurements = Measurements(metric_reader, "clicks")
        ticks.tick()
        measurements.read()
        return measurements.of(CATALOG_LAG)[ticks.checked["orders"].uri,]

    ticks.add("orders")
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", "http://127.0.0.1:9")
    ticks.tick()
    assert "GetTable failed with EndpointConnectionError" in ticks.reasons["orders"]
    assert ticks.observed.keys() == {"orders"}
    ticks.let_time_pass(failing_since=0.0)
    assert lag() > 1e9
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", moto)
    ticks.let_time_pass()
    assert lag() == 0
    assert ticks.reasons["orders"] is None
    assert ticks.observed == {"orders": f"registered as {ticks.database.name}.orders"}


def test_the_commands_compare_and_register_the_derived_tables_of_a_stream(ticks, tmp_path):
    def asset(name, uri=None):
        @derived_table(source="clicks", table=uri or f"{ticks.lake}/{name}", catalog=catalog)
        def function(new):
            return new

        return function

    def states(*, register=False, force=False):
        tables = registered_tables(ticks.opened, assets)
        found = [each.register(force=force) if register else each.compared() for each in tables]
        return {each.asset: str(each.state) for each in found}

    catalog = {"database": ticks.database.name}
    tables = {name: ticks.add(name).table for name in ("outdated", "registered", "crawled")}
    ticks.database.create("crawled", "s3://lake/crawled/")
    ticks.tick()
    ticks.add("missing")
    note = {"name": "note", "type": "string", "nullable": True, "metadata": {}}
    tables["outdated"].snapshot().add_columns([note])
    names = [*tables, "missing", "none"]
    assets = {dg.AssetKey(name): asset(name) for name in names}
    assets[dg.AssetKey("local")] = asset("local", str(tmp_path))
    assert states() == {
        "crawled": "of others",
        "local": "on a disk",
        "missing": "missing",
        "none": "no table",
        "outdated": "outdated",
        "registered": "registered",
    }
    assert [finding.level for finding in entry_findings(registered_tables(ticks.opened, assets))] == [
        "problem",
        "info",
        "problem",
        "info",
        "problem",
    ]
    done = {"local": "on a disk", "missing": "created", "none": "no table", "outdated": "updated"}
    assert states(register=True) == done | {"crawled": "failed", "registered": "registered"}
    assert states(register=True, force=True)["crawled"] == "updated"
    ticks.tick()
    assert ticks.reasons["crawled"] is None  # the command has recorded that it is registered
    del assets[dg.AssetKey("crawled")]
    (left,) = entries_without_asset(registered_tables(ticks.opened, assets))
    assert (left.asset, left.entry, left.state) == ("crawled", f"{ticks.database.name}.crawled", "no asset")


def test_an_entry_that_somebody_has_deleted_or_changed_is_noticed(ticks):
    ticks.add("deleted")
    ticks.add("changed")
    ticks.tick()
    assert ticks.reasons == {"deleted": None, "changed": None}
    ticks.database.glue.delete_table(DatabaseName=ticks.database.name, Name="deleted")
    storage = ticks.database.entry("changed")["StorageDescriptor"]
    ticks.database.change("changed", StorageDescriptor=storage | {"Location": "s3://elsewhere/"})
    ticks.let_time_pass()
    ticks.tick()
    assert ticks.database.columns("deleted") == COLUMNS
    assert "somebody has changed the columns, the location or the format" in ticks.reasons["changed"]


def test_a_table_that_was_deleted_and_created_again_replaces_its_entry(ticks):
    table = ticks.add("orders")
    ticks.tick()
    before = ticks.database.entry("orders")["Parameters"]["kinesis_assets.table_id"]
    table.table.files.delete_dir_contents("", accept_root_dir=True)
    again = ticks.add("orders").table.snapshot().id
    ticks.tick()
    assert ticks.database.entry("orders")["Parameters"]["kinesis_assets.table_id"] == again != before


def test_two_tables_with_one_entry_do_not_replace_each_other(ticks):
    ticks.add("orders")
    ticks.add("others", name="orders")
    ticks.tick()
    assert ticks.reasons["orders"] is None
    assert "the entry is that of another table, at " in ticks.reasons["others"]


def test_a_table_on_a_disk_is_not_registered(ticks, tmp_path):
    ticks.lake = tmp_path
    ticks.add("orders")
    ticks.tick()
    assert (ticks.reasons, ticks.observed) == ({"orders": None}, {})
    assert ticks.database.glue.get_tables(DatabaseName=ticks.database.name)["TableList"] == []


def test_the_role_of_the_setting_registers_a_table(ticks, monkeypatch, moto, registries):
    denied = registries.start(400, {"__type": "AccessDeniedException", "Message": "no permission"})
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", denied)
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", moto)
    ticks.add("own")
    ticks.add("roles", role_arn="arn:aws:iam::111122223333:role/catalog-writer")
    ticks.tick()
    own, of_role = registries.keys
    assert own == "test"
    assert of_role not in {"test", None}
    assert "Allow glue:GetTable on the catalog, on the database" in ticks.reasons["roles"]


def test_a_denied_registration_of_a_raw_table_turns_its_check_red(
    daemon, source, make_project, lake, registries, monkeypatch
):
    denied = {
        "__type": "AccessDeniedException",
        "Message": "Insufficient Lake Formation permission(s): Required Create Table on lake",
    }
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", registries.start(400, denied))
    source.create(1)
    daemon.project = make_project(table=f"{lake}/raw", catalog={"database": "lake"})
    daemon.commit([A], None)
    events = {getattr(each, "check_name", type(each).__name__): each for each in daemon.tick().asset_events}
    assert (events["catalog"].passed, events["continuity"].passed) == (False, True)
    reason = events["catalog"].description
    assert "Grant the caller CREATE_TABLE and DESCRIBE on the database lake" in reason
    assert "Create Table on lake" in events["AssetObservation"].description


def test_a_tick_of_the_sensor_registers_the_raw_table(daemon, source, make_project, lake, moto):
    database = Database(moto)
    source.create(1)
    daemon.project = make_project(table=f"{lake}/raw", catalog={"database": database.name, "name": "clicks"})
    daemon.commit([A], None)
    events = {getattr(each, "check_name", each.asset_key): each for each in daemon.tick().asset_events}
    assert events["catalog"].passed
    assert database.columns("clicks") == {
        "stream": "string",
        "shard_id": "string",
        "sequence_number": "string",
        "sub_sequence_number": "bigint",
        "partition_key": "string",
        "data": "binary",
        "approximate_arrival_timestamp": "timestamp",
        "batch_id": "bigint",
        "error": "string",
        "arrival_date": "date",
    }
    owner = database.entry("clicks")["Parameters"]["kinesis_assets.stream"]
    assert owner.endswith(f"/{source.name}")
