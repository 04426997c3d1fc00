"""All streams of an account in one YAML, which are listed on real HTTP."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox

from kinesis_assets import KinesisAccountComponent
from kinesis_assets.errors import InvalidInput, StreamsNotListed
from kinesis_assets.testing import LocalKinesis
from support.dagster_components import dagsters_own_warnings
from support.fixtures.stream import boto3_of
from support.mentions import assert_mentions
from support.stream_names import io_manager_key, raw_key, stream_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    import dagster as dg
    from dagster.components.testing import DefsFolderSandbox

pytestmark = dagsters_own_warnings

TABLE = "s3://lake/{stream}_raw"


class Account:
    """An account, and a project with the component of its streams."""

    def __init__(self, local: LocalKinesis, sandbox: DefsFolderSandbox) -> None:
        self.client = boto3_of(local)
        self._url = local.endpoint_url
        self._sandbox = sandbox

    def create(self, *names: str, **tags: str) -> None:
        for name in names:
            self.client.create_stream(StreamName=name, ShardCount=1, **({"Tags": tags} if tags else {}))

    def configure(self, **attributes: Any) -> None:
        folder = self._sandbox.defs_folder_path / "account"
        folder.mkdir(exist_ok=True)
        attributes = {"table": TABLE, "endpoint_url": self._url} | attributes
        contents = {"type": "kinesis_assets.KinesisAccountComponent", "attributes": attributes}
        (folder / "defs.yaml").write_text(yaml.safe_dump(contents), encoding="utf-8")

    def refresh(self) -> None:
        """Do what `dg utils refresh-defs-state` does."""
        with self._sandbox.build_component_tree() as tree:
            (component,) = tree.get_all_components(of_type=KinesisAccountComponent)
            asyncio.run(component.refresh_state(self._sandbox.project_root))

    def load(self) -> dg.Definitions:
        with self._sandbox.build_all_defs() as definitions:
            definitions.get_repository_def().load_all_definitions()
            return definitions

    def streams(self, **attributes: Any) -> list[str]:
        """Configure, refresh and load the component; return the streams that have assets."""
        self.configure(**attributes)
        self.refresh()
        keys = self.load().resolve_asset_graph().get_all_asset_keys()
        names = {key.path[1].removesuffix("_raw") for key in keys}
        assert keys == {key(name) for name in names for key in (stream_key, raw_key)}
        return sorted(names)

    def refusal(self) -> str:
        """Return why the definitions cannot be loaded."""
        with pytest.raises(Exception, match="Error while") as caught:
            self.load()
        error: BaseException = caught.value
        while not isinstance(error, StreamsNotListed | InvalidInput):
            assert error.__cause__ is not None, error
            error = error.__cause__
        return str(error)


@pytest.fixture
def account() -> Iterator[Account]:
    with LocalKinesis() as local, create_defs_folder_sandbox() as sandbox:
        yield Account(local, sandbox)


@pytest.mark.slow
def test_every_stream_of_the_account_has_assets_and_a_table(account):
    account.create("orders", "clicks")
    assert account.streams(max_records=7) == ["clicks", "orders"]
    manager = (account.load().resources or {})[io_manager_key("orders")]
    assert (manager.stream, manager.table, manager.max_records) == ("orders", "s3://lake/orders_raw", 7)
    assert manager.stream_arn == "arn:aws:kinesis:us-east-1:000000000000:stream/orders"


@pytest.mark.slow
def test_streams_are_selected_by_name_and_tag(account):
    account.create("orders-eu", "orders-us", team="shop")
    account.create("orders-old", "clicks")
    account.create("orders-test", team="shop", stage="test")
    selection = {"stream_names": ["orders-*"], "stream_tags": {"team": "shop"}}
    assert account.streams(**selection) == ["orders-eu", "orders-test", "orders-us"]
    assert account.streams(**selection, exclude=["*-test"]) == ["orders-eu", "orders-us"]
    assert account.streams(stream_names=["clicks", "orders-o?d"]) == ["clicks", "orders-old"]


def test_without_a_list_loading_fails_with_the_way_out(account):
    account.create("orders")
    account.configure()
    assert "`dg utils refresh-defs-state`" in account.refusal()


@pytest.mark.slow
def test_a_list_for_other_settings_is_not_used(account):
    account.create("orders", "clicks")
    assert account.streams(stream_names=["orders"]) == ["orders"]
    account.configure(stream_names=["clicks"])
    assert "`dg utils refresh-defs-state`" in account.refusal()


@pytest.mark.slow
def test_a_stream_that_is_no_longer_listed_keeps_its_assets_until_it_is_excluded(account, caplog):
    account.create("orders", "clicks")
    assert account.streams() == ["clicks", "orders"]
    account.client.delete_stream(StreamName="orders")
    assert account.streams() == ["clicks", "orders"]
    (warning,) = {record.message for record in caplog.records if "listed" in record.message}
    assert_mentions(warning, "orders", "tags")
    graph = account.load().resolve_asset_graph()
    assert "list since 20" in graph.get(stream_key("orders")).description
    assert "list since" not in graph.get(stream_key("clicks")).description
    assert account.streams(exclude=["orders"]) == ["clicks"]


@pytest.mark.slow
def test_a_stream_that_loses_its_tag_keeps_its_assets_too(account):
    account.create("orders", "clicks", team="shop")
    assert account.streams(stream_tags={"team": "shop"}) == ["clicks", "orders"]
    account.client.remove_tags_from_stream(StreamName="orders", TagKeys=["team"])
    assert account.streams(stream_tags={"team": "shop"}) == ["clicks", "orders"]


@pytest.mark.slow
def test_a_refresh_that_fails_changes_nothing(account):
    account.create("orders")
    assert account.streams() == ["orders"]
    account.client.delete_stream(StreamName="orders")
    with pytest.raises(StreamsNotListed, match="matches stream_names"):
        account.refresh()
    assert "orders" in str(account.load().resources)


@pytest.mark.slow
def test_a_stream_may_have_settings_of_its_own(account, monkeypatch):
    monkeypatch.setenv("SETTING_OF_THE_TESTS", "5")
    account.create("orders", "clicks")
    own = {"table": "s3://other/orders", "max_records": "{{ env.SETTING_OF_THE_TESTS }}", "start": "LATEST"}
    assert account.streams(max_records=9, streams={"orders": own}) == ["clicks", "orders"]
    resources = account.load().resources or {}
    orders, clicks = (resources[io_manager_key(name)] for name in ("orders", "clicks"))
    assert (orders.table, orders.max_records, orders.start) == ("s3://other/orders", 5, "LATEST")
    assert (clicks.table, clicks.max_records, clicks.start) == ("s3://lake/clicks_raw", 9, "TRIM_HORIZON")


@pytest.mark.slow
def test_the_streams_of_an_account_have_its_key_prefix_unless_one_has_its_own(account):
    account.create("orders", "clicks")
    account.configure(key_prefix=["eu", "shop"], streams={"orders": {"key_prefix": "eu"}})
    account.refresh()
    keys = account.load().resolve_asset_graph().get_all_asset_keys()
    assert {key.to_user_string() for key in keys} == {
        *("eu/orders", "eu/orders_raw", "eu/shop/clicks", "eu/shop/clicks_raw")
    }


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"streams": {"order": {}}}, r"streams: .*\border\b"),
        ({"streams": {"orders": {"table": "s3://lake/clicks_raw"}}}, "have the same table"),
        (
            {"table": "/lake/{stream}", "streams": {"orders": {"table": "file:///lake/x/../clicks"}}},
            "have the same table",
        ),
        ({"streams": {"orders": {"start": "NOW"}}}, "streams: orders: invalid position 'NOW'"),
        ({"streams": {"orders": {"key_prefix": "a/b"}}}, "streams: orders: key_prefix: invalid part 'a/b'"),
        ({"exclude": ["*"]}, "exclude: no stream is left"),
    ],
)
def test_settings_that_do_not_suit_the_streams_are_refused(account, settings, reason):
    account.create("orders", "clicks")
    account.configure(**settings)
    account.refresh()
    assert re.search(reason, account.refusal())


def test_streams_that_would_have_the_same_names_are_refused(account):
    account.create("orders", "orders_raw")
    account.configure()
    account.refresh()
    assert "kinesis/orders_raw" in account.refusal()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"table": "s3://lake/raw"}, r"table: \{stream\} must be in it"),
        (
            {"table": "s3://lake/{stream}/{date}"},
            "as the only part in braces",
        ),
        ({"table": "gs://lake/{stream}"}, "invalid URI"),
        ({"stream_names": []}, "stream_names"),
        ({"stream_names": "orders"}, "stream_names must be a valid list"),
        ({"streams": {"orders": {"max_records": 0}}}, "streams must be above 0"),
        ({"streams": {"orders": {"stream": "clicks"}}}, "streams"),
        ({"defs_state": {"management_type": "LEGACY_CODE_SERVER_SNAPSHOTS"}}, "remembers no stream"),
    ],
)
def test_invalid_settings_are_refused(settings, reason):
    with pytest.raises(InvalidInput, match=reason):
        KinesisAccountComponent(**{"table": TABLE} | settings)


def test_a_stream_whose_name_would_leave_the_folder_is_refused(account):
    account.create("..")
    account.configure(table="lake/{stream}/raw")
    account.refresh()
    assert "lake/../raw" in account.refusal()
