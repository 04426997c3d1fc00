"""`get_asset_spec`, with which a subclass of a component changes the specs of its assets."""

from __future__ import annotations

import dagster as dg
import pytest

from kinesis_assets import KinesisAssetProps, KinesisStreamComponent, KinesisTableComponent
from support.dagster_components import dagsters_own_warnings, loaded
from support.stream_names import raw_key, stream_key

pytestmark = dagsters_own_warnings

CLICKS = {"stream": "clicks", "table": "clicks"}
TYPED = {
    "name": "typed",
    "source": "clicks",
    "table": "typed",
    "format": "json",
    "schema": "a STRING",
    "on_bad_record": "separate",
}


def specs(definitions: dg.Definitions) -> dict[dg.AssetKey, dg.AssetSpec]:
    graph = definitions.resolve_asset_graph()
    return {key: graph.get(key).to_asset_spec() for key in graph.get_all_asset_keys()}


class _Tagged:
    def get_asset_spec(self, props: KinesisAssetProps) -> dg.AssetSpec:
        spec = super().get_asset_spec(props)  # type: ignore[misc]  # it is mixed in
        return spec.merge_attributes(tags={"role": props.role, "stream": props.stream}, owners=["team:shop"])


class Tagged(_Tagged, KinesisStreamComponent):
    pass


class TaggedTable(_Tagged, KinesisTableComponent):
    pass


class Renamed(KinesisStreamComponent):
    def get_asset_spec(self, props: KinesisAssetProps) -> dg.AssetSpec:
        return props.spec.replace_attributes(key=props.spec.key.with_prefix("shop"))


class Bare(KinesisStreamComponent):
    def get_asset_spec(self, props: KinesisAssetProps) -> dg.AssetSpec:
        return props.spec.replace_attributes(metadata={"cost": 7})


class Upstream(KinesisStreamComponent):
    def get_asset_spec(self, props: KinesisAssetProps) -> dg.AssetSpec:
        return props.spec.replace_attributes(deps=["shop"]) if props.role == self.changed else props.spec

    changed: str = "stream"


def built(component: type[dg.Component], **attributes: object) -> dg.Definitions:
    name = f"{component.__module__}.{component.__qualname__}"
    return loaded(component, type_name=name, **attributes)[1]


def test_a_subclass_changes_the_specs_of_stream_and_raw_table():
    found = specs(built(Tagged, **CLICKS))
    for key, role in ((stream_key("clicks"), "stream"), (raw_key("clicks"), "raw")):
        assert found[key].tags.items() >= {"role": role, "stream": "clicks"}.items()
        assert found[key].owners == ["team:shop"]


def test_a_subclass_changes_the_specs_of_a_typed_table_and_of_its_errors():
    found = specs(dg.Definitions.merge(built(Tagged, **CLICKS), built(TaggedTable, **TYPED)))
    assert found[dg.AssetKey("typed")].tags["role"] == "table"
    assert found[dg.AssetKey("typed_errors")].tags["role"] == "errors"


def test_definitions_with_changed_specs_can_be_loaded_with_their_sensors():
    definitions = dg.Definitions.merge(built(Tagged, **CLICKS), built(TaggedTable, **TYPED))
    definitions.get_repository_def().load_all_definitions()


@pytest.mark.parametrize(
    ("component", "attributes", "reason"),
    [
        (Renamed, {}, "get_asset_spec changed key of asset kinesis/clicks"),
        (Upstream, {"changed": "raw"}, "get_asset_spec changed deps of asset kinesis/clicks_raw"),
        (Bare, {}, "get_asset_spec changed dagster/"),
    ],
)
def test_what_runs_depend_on_must_not_be_changed(component, attributes, reason):
    with pytest.raises(Exception, match=component.__name__) as caught:
        built(component, **CLICKS, **attributes)
    assert str(caught.value.__cause__).startswith(reason)


def test_a_subclass_may_add_settings_and_dependencies_of_the_stream():
    found = specs(built(Upstream, **CLICKS, changed="stream"))
    assert [dep.asset_key for dep in found[stream_key("clicks")].deps] == [dg.AssetKey("shop")]
