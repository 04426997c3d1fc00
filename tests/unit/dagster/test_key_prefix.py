"""Streams of one name in two accounts, which have different key prefixes in one project."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, NamedTuple

import dagster as dg
import pytest

from kinesis_assets import build_kinesis_stream, derived_table, rollup
from kinesis_assets.dagster.derived_tables import checked_tables, derived_tables
from kinesis_assets.dagster.sensor.sensor import newest_partitions
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.errors import InvalidInput
from support.daemon import PARTITION, Daemon
from support.mentions import assert_mentions
from support.shard_ids import A, B
from support.tables import numbers, put_numbers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


class TwoStreams(NamedTuple):
    """The daemons of two streams of one name. `ours` has one shard and one record, `theirs` two of each."""

    ours: Daemon
    theirs: Daemon

    @property
    def definitions(self) -> dg.Definitions:
        return self.ours.project.definitions


@pytest.fixture
def two(stream, settings, kinesis, clocked, instance, tmp_path) -> TwoStreams:
    put_numbers(kinesis, stream, 1)
    put_numbers(clocked.kinesis, stream, 2, shards=2)
    endpoints = {"ours": settings.endpoint_url, "theirs": clocked.settings.endpoint_url}
    both = dg.Definitions.merge(
        *(
            build_kinesis_stream(stream, table=str(tmp_path / name), endpoint_url=url, key_prefix=name)
            for name, url in endpoints.items()
        )
    )
    return TwoStreams(*(Daemon(StreamProject(stream, both, (name,)), instance) for name in endpoints))


def test_no_two_definitions_have_the_same_name(two):
    two.definitions.get_repository_def().load_all_definitions()
    assert len([*two.definitions.resolve_asset_graph().get_all_asset_keys()]) == 4
    for definitions in (two.definitions.jobs, two.definitions.sensors, two.definitions.schedules):
        names = [each.name for each in definitions or ()]
        assert len({*names}) == len(names) > 1


def test_a_sensor_finds_the_partitions_that_it_added_before(two, stream, instance):
    two.theirs.tick()
    assert newest_partitions(instance, StreamNames(stream, ("theirs",)), ()) == [A, B]


def test_each_sensor_adds_the_shards_of_its_stream_to_its_own_partitions(two, stream):
    two.theirs.tick()
    assert two.ours.partition_keys() == []
    two.ours.tick()
    assert (two.ours.partition_keys(), two.theirs.partition_keys()) == ([A], [A, B])
    instance = two.ours.instance
    assert instance.get_materialized_partitions(StreamNames(stream, ("ours",)).stream_key) == {A}
    assert instance.get_materialized_partitions(StreamNames(stream, ("theirs",)).stream_key) == {A, B}


def test_each_sensor_requests_runs_of_its_raw_asset_alone(two, stream):
    for daemon, prefix in ((two.ours, "ours"), (two.theirs, "theirs")):
        (request,) = daemon.tick().run_requests or ()
        assert request.asset_selection == [dg.AssetKey([prefix, f"{stream}_raw"])]


def test_an_unfinished_run_of_one_stream_holds_no_shard_of_the_other(two):
    two.theirs.tick()
    two.theirs.run({PARTITION: A})
    assert two.theirs.requested_ranges() == [(B,)]
    assert two.ours.requested_ranges() == [(A,)]


def test_each_stream_is_read_into_its_own_table(two):
    two.ours.commit([A], by=None)
    two.theirs.commit([A, B], by=None)
    tables = [daemon.opened.settings.table for daemon in two]
    assert [numbers(table) for table in tables] == [[0], [0, 1]]


def test_missing_events_are_added_to_the_stream_that_lacks_them(two):
    for daemon, shards in ((two.ours, [A]), (two.theirs, [A, B])):
        daemon.tick()
        daemon.commit(shards, by=None)
    two.ours.tick()
    assert (len(two.ours.materializations()), two.theirs.materializations()) == (1, [])
    two.theirs.tick()
    assert sum(each["rows"] for each in two.theirs.materializations()) == 2


def test_the_io_manager_of_one_stream_does_not_load_the_other(two):
    ours, theirs = ((two.definitions.resources or {})[each.project.names.io_manager_key] for each in two)
    context = dg.build_input_context(asset_key=theirs.names.stream_key)
    with pytest.raises(InvalidInput, match=r"theirs/.*ours/"):
        ours.load_input(context)


# Derived tables


@pytest.fixture
def derived(two, stream, tmp_path) -> dg.Definitions:
    """A derived table and a roll-up below one of the streams."""

    @derived_table(source=f"theirs/{stream}", table=str(tmp_path / "orders"))
    def orders(new):
        return new

    @rollup(source=f"theirs/{stream}", upstream="orders", table=str(tmp_path / "days"), by=["id"])
    def days(rows):
        return rows

    return dg.Definitions.merge(two.definitions, dg.Definitions(assets=[orders, days]))


def test_a_derived_table_is_below_the_raw_table_with_the_prefix_of_its_source(two, derived):
    names = two.theirs.project.names
    asset = derived.get_repository_def().assets_defs_by_key[dg.AssetKey("orders")]
    assert asset.dependency_keys == {names.raw_key}
    assert names.io_manager_key in asset.required_resource_keys


def test_only_the_stream_of_that_prefix_has_the_derived_tables(two, derived):
    assets = derived.get_repository_def().assets_defs_by_key
    ours, theirs = (each.project.names for each in two)
    assert derived_tables(assets, ours) == {}
    assert [key.to_user_string() for key in derived_tables(assets, theirs)] == ["days", "orders"]
    with two.ours.project.open_stream() as opened:
        assert checked_tables(assets, opened) == []
    with two.theirs.project.open_stream() as opened:
        assert [table.name for table in checked_tables(assets, opened)] == ["days", "orders"]


# The command line


ARN = "arn:aws:kinesis:eu-west-1:111122223333:stream/orders"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a project with three streams, two of them of one name."""
    (tmp_path / "pyproject.toml").write_text('[tool.dg.project]\nroot_module = "lake"\n')
    streams = {
        "orders": {"stream": "orders", "table": "a"},
        "eu": {"stream": ARN, "table": "b", "key_prefix": "eu"},
        "clicks": {"stream": "clicks", "table": "c", "key_prefix": ["eu", "web"]},
    }
    for name, attributes in streams.items():
        folder = tmp_path / "lake" / "defs" / name
        folder.mkdir(parents=True)
        component = {"type": "kinesis_assets.KinesisStreamComponent", "attributes": attributes}
        (folder / "defs.yaml").write_text(json.dumps(component))
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning", "ignore::dagster.PreviewWarning")
def test_a_command_finds_a_stream_by_its_key_its_arn_or_a_name_that_is_unique(project):
    def found(stream: str) -> str:
        return StreamProject.of_folder(stream, project).names.stream_key.to_user_string()

    assert found("clicks") == found("eu/web/clicks") == "eu/web/clicks"
    assert found("eu/orders") == found(ARN) == "eu/orders"
    assert found("kinesis/orders") == "kinesis/orders"
    with pytest.raises(InvalidInput, match="stream orders: ") as caught:
        found("orders")
    assert_mentions(str(caught.value), "kinesis/orders", "eu/orders")
    with pytest.raises(InvalidInput, match=r"us/orders: .*defs\.yaml"):
        found("us/orders")
    with pytest.raises(InvalidInput, match=ARN):
        found(ARN.replace("eu-west-1", "us-east-1"))


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning", "ignore::dagster.PreviewWarning")
@pytest.mark.parametrize("folder", ["src", "."])
def test_a_command_finds_a_stream_of_a_project_that_is_not_installed(tmp_path, monkeypatch, folder):
    """As `dg` finds it, in the folder that `create-dagster` creates, or in that of older projects."""
    module = f"of_{folder}_not_installed".replace(".", "root")
    (tmp_path / "pyproject.toml").write_text(f'[tool.dg.project]\nroot_module = "{module}"\n')
    defs = tmp_path / folder / module / "defs"
    defs.mkdir(parents=True)
    component = {"type": "kinesis_assets.KinesisStreamComponent", "attributes": {"stream": "a", "table": "a"}}
    (defs / "defs.yaml").write_text(json.dumps(component))
    monkeypatch.setattr(sys, "path", [*sys.path])
    for _ in range(2):
        assert StreamProject.of_folder("a", defs).names.stream_key.to_user_string() == "kinesis/a"
    assert sys.path.count(str(tmp_path / folder)) == 1
