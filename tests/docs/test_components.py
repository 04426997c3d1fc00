"""Every block of docs/components.md does what the page says."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
import yaml
from dagster.components.core.package_entry import discover_package_objects
from dagster.components.testing import create_defs_folder_sandbox

import kinesis_assets
from kinesis_assets import KinesisAccountComponent
from kinesis_assets.dagster.events.missing_events import MAX_FILES
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.testing import LocalKinesis
from support.dagster_components import dagsters_own_warnings, loaded
from support.fixtures.stream import boto3_of
from support.stream_names import raw_key, stream_key

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = dagsters_own_warnings

PAGE = (Path(__file__).parents[2] / "docs" / "components.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


TEMPLATES, ACCOUNT, PREFIXED = map(yaml.safe_load, blocks("yaml"))


def test_the_page_lists_every_component() -> None:
    components = discover_package_objects(["kinesis_assets"])
    assert set(re.findall(r"^\| `([\w.]+)` \|", PAGE, re.MULTILINE)) == {
        f"kinesis_assets.{key.name}" for key in components
    }


def test_the_commands_of_the_page_write_valid_settings(tmp_path: Path) -> None:
    lines = [shlex.split(line) for line in blocks("sh")[0].splitlines()]
    assert len(lines) == 2
    for *start, type_name, folder, options in [(*line[:4], line[4], line[5:]) for line in lines]:
        assert start == ["dg", "scaffold", "defs"]
        component = getattr(kinesis_assets, type_name.removeprefix("kinesis_assets."))
        names = [option.removeprefix("--").replace("-", "_") for option in options[::2]]
        scaffolder = component.__scaffolder_cls__()
        params = scaffolder.get_scaffold_params()(**dict(zip(names, options[1::2], strict=True)))
        path = tmp_path / folder
        path.mkdir()
        request = dg.ScaffoldRequest(type_name, path, "yaml", None, params)
        scaffolder.scaffold(request)
        written = yaml.safe_load((path / "defs.yaml").read_text())
        assert loaded(component, **written["attributes"])[1].assets


def test_the_templates_of_the_page_are_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE", "s3://my-lake")
    component, _ = loaded(**TEMPLATES["attributes"])
    assert (component.table, component.max_records) == ("s3://my-lake/raw/clicks", 100_000)
    monkeypatch.delenv("LAKE")
    with pytest.raises(Exception, match=r"defs\.yaml"):
        loaded(**TEMPLATES["attributes"])


@pytest.fixture
def local() -> Iterator[LocalKinesis]:
    with LocalKinesis() as local:
        client = boto3_of(local)
        for name in ("shop-orders", "shop-clicks", "shop-test", "other"):
            client.create_stream(StreamName=name, ShardCount=1, Tags={"team": "shop"})
        yield local


def test_the_account_of_the_page_has_its_streams_and_its_changed_assets(local: LocalKinesis) -> None:
    names: dict[str, Any] = {}
    exec(blocks("python")[0], names)  # noqa: S102  # the page's own lines
    assert ACCOUNT["type"] == "kinesis_assets.KinesisAccountComponent"
    attributes = ACCOUNT["attributes"] | {"endpoint_url": local.endpoint_url}
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=KinesisAccountComponent,
            defs_yaml_contents={"type": ACCOUNT["type"], "attributes": attributes},
        )
        with sandbox.build_component_tree() as tree:
            component = names["ShopStreams"](**attributes)
            asyncio.run(component.refresh_state(sandbox.project_root))
            context = tree.load_context.for_path(path)
            (state,) = sandbox.defs_folder_path.glob(".local_defs_state/*/state")
            graph = component.build_defs_from_state(context, state).resolve_asset_graph()
    streams = ("shop-orders", "shop-clicks")
    assert graph.get_all_asset_keys() == {key(name) for name in streams for key in (stream_key, raw_key)}
    assert graph.get(raw_key("shop-orders")).owners == ["team:shop"]
    assert graph.get(raw_key("shop-orders")).tags["domain"] == "orders"
    assert list(graph.get(stream_key("shop-orders")).owners) == []


def test_the_stream_with_a_prefix_has_the_names_of_the_page() -> None:
    _, definitions = loaded(**PREFIXED["attributes"])
    keys = {key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()}
    assert all(f"`{key}`" in PAGE for key in keys)
    names = StreamNames.of(PREFIXED["attributes"]["stream"], PREFIXED["attributes"]["key_prefix"])
    assert f"`{names.raw_step}`" in PAGE
    assert f"`source: {names.stream_key.to_user_string()}`" in PAGE
    assert StreamNames.parse(names.stream_key.to_user_string()) == names
    assert f"{MAX_FILES} commits" in PAGE
