"""Two assets of one code location that name the same table, or one in the folder of the other."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from kinesis_assets import build_kinesis_stream, derived_table, rollup
from kinesis_assets.dagster.derived_tables import checked_tables
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.errors import InvalidInput, TableMissing
from support.dagster_components import dagsters_own_warnings
from support.mentions import assert_mentions

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = dagsters_own_warnings


def derived(name: str, table: str, **settings: Any) -> dg.AssetsDefinition:
    def copied(new):
        return new

    copied.__name__ = name
    return derived_table(source="clicks", table=table, **settings)(copied)


def load(*assets: dg.AssetsDefinition, **tables: str) -> set[str]:
    """Load a code location with streams and assets, and return the keys of the assets."""
    streams = [build_kinesis_stream(name, table=table) for name, table in tables.items()]
    definitions = dg.Definitions.merge(*streams, dg.Definitions(assets=assets))
    definitions.get_repository_def()
    return {key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The working directory, with the link `lake` to itself."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake").symlink_to(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "spelling",
    [
        "orders",
        "./orders",
        "orders/",
        "other/../orders",
        "{folder}/orders",
        "file://{folder}/orders",
        "lake/orders",
    ],
)
def test_another_spelling_of_the_same_folder_is_refused(folder, spelling):
    table = spelling.format(folder=folder)
    with pytest.raises(InvalidInput) as refused:
        load(derived("first", "orders"), derived("second", table), clicks="clicks")
    assert_mentions(str(refused.value), "first", "second", "table of its own")


def test_the_same_prefix_in_a_bucket_is_refused():
    with pytest.raises(InvalidInput, match="first and second"):
        load(derived("first", "s3://lake/orders"), derived("second", "s3://lake/orders/"), clicks="clicks")


def test_another_scheme_for_s3_is_no_table():
    with pytest.raises(InvalidInput, match="s3a://lake/orders"):
        derived("second", "s3a://lake/orders")


def test_a_roll_up_is_refused_as_other_derived_tables_are():
    @rollup(source="clicks", table="orders", by=["day"])
    def counts(rows):
        return rows

    with pytest.raises(InvalidInput, match="counts and first"):
        load(derived("first", "orders"), counts, clicks="clicks")


def test_the_raw_table_of_a_stream_is_refused():
    with pytest.raises(InvalidInput, match="first and kinesis/clicks_raw"):
        load(derived("first", "./clicks"), clicks="clicks")


def test_the_raw_table_of_another_stream_is_refused():
    with pytest.raises(InvalidInput, match="first and kinesis/views_raw"):
        load(derived("first", "views"), clicks="clicks", views="views")


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ("orders", "orders/typed"),
        ("orders", "lake/./orders/a/b/typed/"),
        ("s3://lake", "s3://lake/orders"),
        ("s3://lake/a", "s3://lake/a/orders"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_table_in_the_folder_of_another_is_refused(outer, inner):
    for kwargs in ({"clicks": outer}, {"views": outer, "clicks": "clicks"}):
        with pytest.raises(InvalidInput, match=r"first is in the folder of that of kinesis/\w+_raw\."):
            load(derived("first", inner), **kwargs)
    with pytest.raises(InvalidInput, match=r"clicks_raw is in the folder of that of first\."):
        load(derived("first", outer), clicks=inner)
    with pytest.raises(InvalidInput, match=r"clicks_raw is in the folder of that of kinesis/views_raw\."):
        load(clicks=inner, views=outer)


def test_tables_whose_names_begin_alike_are_loaded():
    tables = {"clicks": "s3://lake/orders", "views": "s3://lake/orders_2"}
    assert "first" in load(derived("first", "s3://lake/orders.typed"), **tables)


def test_tables_of_their_own_are_loaded(folder):
    (folder / "ORDERS").mkdir()
    assert {"first", "second"} <= load(
        derived("first", "orders"), derived("second", "orders_2"), clicks="clicks"
    )


def test_an_asset_that_only_names_the_table_is_no_owner():
    reader = dg.AssetsDefinition(specs=[dg.AssetSpec("reader", metadata={"dagster/uri": "orders"})])
    assert "reader" in load(derived("first", "orders"), reader, clicks="clicks")


def test_the_sensor_targets_the_derived_tables_as_before():
    definitions = dg.Definitions.merge(
        build_kinesis_stream("clicks", table="clicks"), dg.Definitions(assets=[derived("first", "orders")])
    )
    repository = definitions.get_repository_def()
    selection = repository.get_sensor_def("kinesis__clicks_raw_automation").asset_selection
    graph = definitions.resolve_asset_graph()
    assert selection.resolve(graph) == {dg.AssetKey("first")}
    stored: Any = selection.to_serializable_asset_selection(graph)
    restored: Any = dg.deserialize_value(dg.serialize_value(stored))
    assert restored.resolve(graph) == {dg.AssetKey("first")}


def test_a_table_derived_from_an_iceberg_table_opens_its_source_in_its_catalog(folder):
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "database": "lake"}
    stream = build_kinesis_stream("clicks", table="clicks", format="iceberg", catalog=catalog)
    tables = [derived("first", "orders"), derived("second", "orders_2", upstream="first")]
    assets = dg.Definitions.merge(stream, dg.Definitions(assets=tables)).get_repository_def()
    with StreamProject("clicks", stream).open_stream() as opened:
        checked = checked_tables(assets.assets_defs_by_key, opened)
    first, second = (each.source_format for each in checked)
    assert second is None
    with pytest.raises(TableMissing, match=r"the catalog has no table lake\.clicks_raw"):
        open_source("clicks", None, first)


def test_a_table_derived_from_a_derived_iceberg_table_opens_its_source_in_its_catalog(folder):
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "database": "lake"}
    above = derived("first", "orders", table_format="iceberg", catalog=catalog)
    tables = [above, derived("second", "orders_2", upstream="first")]
    stream = build_kinesis_stream("clicks", table="clicks")
    assets = dg.Definitions.merge(stream, dg.Definitions(assets=tables)).get_repository_def()
    with StreamProject("clicks", stream).open_stream() as opened:
        checked = checked_tables(assets.assets_defs_by_key, opened)
    first, second = (each.source_format for each in checked)
    assert first is None
    with pytest.raises(TableMissing, match=r"the catalog has no table lake\.first"):
        open_source("orders", None, second)


def test_a_table_derived_from_the_iceberg_table_of_another_stream_is_refused(folder):
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "database": "lake"}
    streams = [
        build_kinesis_stream("visits", table="visits", format="iceberg", catalog=catalog),
        build_kinesis_stream("clicks", table="clicks"),
    ]
    first = derived("first", "orders", upstream="kinesis/visits_raw")
    definitions = dg.Definitions.merge(*streams, dg.Definitions(assets=[first]))
    with pytest.raises(InvalidInput) as refused:
        definitions.get_repository_def()
    assert_mentions(str(refused.value), "first", "visits_raw", "Iceberg table of another stream", "source")


@pytest.mark.parametrize(
    ("regions", "catalog", "is_refused"),
    [
        (("eu-west-1", "us-east-1"), {}, True),
        (("eu-west-1", "us-east-1"), {"region_name": "eu-west-1"}, False),
        (("eu-west-1", "eu-west-1"), {}, False),
    ],
    ids=["other region", "region of the catalog", "same region"],
)
def test_a_derived_table_in_the_glue_of_another_stream_is_refused_if_it_would_not_be_found(
    regions, catalog, is_refused
):
    glue = {"type": "glue", "database": "lake", **catalog}
    each = [
        build_kinesis_stream(name, table=name, region_name=region)
        for name, region in zip(("visits", "clicks"), regions, strict=True)
    ]

    @derived_table(source="visits", table="above", table_format="iceberg", catalog=glue)
    def above(new):
        return new

    assets = dg.Definitions(assets=[above, derived("below", "below", upstream="above")])
    definitions = dg.Definitions.merge(*each, assets)
    with pytest.raises(InvalidInput) if is_refused else nullcontext() as refused:
        definitions.get_repository_def()
    if is_refused:
        assert_mentions(str(refused.value), "below", "above", "region", "Set source to that stream")


GLUE = {"database": "lake", "name": "orders"}
ICEBERG_IN_GLUE = {"table_format": "iceberg", "catalog": {"type": "glue", **GLUE}}


def test_two_derived_tables_with_one_entry_in_the_data_catalog_are_refused():
    assets = [derived("first", "a", catalog=GLUE), derived("second", "b", catalog=GLUE)]
    with pytest.raises(InvalidInput, match=r"first and second have the same entry lake\.orders\. Give"):
        load(*assets, clicks="clicks")
    load(assets[0], derived("second", "b", catalog={**GLUE, "region_name": "eu-west-1"}), clicks="clicks")
    load(assets[0], derived("second", "b", catalog={**GLUE, "database": "other"}), clicks="clicks")


@pytest.mark.parametrize("other", [{"catalog": GLUE}, ICEBERG_IN_GLUE], ids=["Delta", "Iceberg"])
def test_a_derived_iceberg_table_in_glue_and_another_table_with_its_name_are_refused(other):
    assets = [derived("first", "a", **ICEBERG_IN_GLUE), derived("second", "b", **other)]
    with pytest.raises(InvalidInput, match=r"first and second have the same entry lake\.orders\. Give"):
        load(*assets, clicks="clicks")


@pytest.mark.parametrize("settings", [{}, {"region_name": "eu-west-1"}])
def test_an_iceberg_table_in_glue_and_a_registered_table_with_one_name_are_refused(settings):
    catalog = {"type": "glue", **GLUE, **settings}
    stream = build_kinesis_stream(
        "clicks", table="clicks", region_name="eu-west-1", format="iceberg", catalog=catalog
    )

    def load(**others):
        first = derived("first", "a", catalog={**GLUE, **others})
        dg.Definitions.merge(stream, dg.Definitions(assets=[first])).get_repository_def()

    with pytest.raises(
        InvalidInput, match=r"first and kinesis/clicks_raw have the same entry lake\.orders\."
    ):
        load()
    load(region_name="us-east-1")
    load(database="other")


def streams(*regions: str, **settings: Any) -> dg.Definitions:
    """Return a stream in each of some regions, of the same name."""
    each = [
        build_kinesis_stream("clicks", table=f"t{n}", region_name=region, key_prefix=[f"p{n}"], **settings)
        for n, region in enumerate(regions)
    ]
    return dg.Definitions.merge(*each)


def test_two_streams_of_one_region_with_one_entry_are_refused():
    streams("eu-west-1", "us-east-1", catalog={"database": "lake"}).get_repository_def()
    with pytest.raises(InvalidInput, match=r"p0/clicks_raw and p1/clicks_raw have the same entry lake\."):
        streams("eu-west-1", "eu-west-1", catalog={"database": "lake"}).get_repository_def()


def test_two_iceberg_tables_with_one_name_in_a_catalog_are_refused():
    rest = {"type": "rest", "uri": "https://catalog.example", "database": "lake"}
    with pytest.raises(InvalidInput, match=r"have the same entry lake\.clicks_raw"):
        streams("eu-west-1", "us-east-1", format="iceberg", catalog=rest).get_repository_def()
    signed = {**rest, "rest.sigv4-enabled": "true"}  # the same URL in another region or account
    streams("eu-west-1", "us-east-1", format="iceberg", catalog=signed).get_repository_def()
    with pytest.raises(InvalidInput, match=r"have the same entry lake\.clicks_raw"):
        streams("eu-west-1", "eu-west-1", format="iceberg", catalog=signed).get_repository_def()
