"""Refuses tables of a code location that are in each other's way or have no source, when it is loaded.

A table has one position, so of two assets with one table each would consume some of the rows. A table whose
source does not exist would never have any. Of two assets with one entry in a catalog, engines find one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import dagster as dg

from kinesis_assets.dagster.dagster_internals import body_of
from kinesis_assets.dagster.derived_tables import consumption_of, derived_tables, has_uri, uri_of
from kinesis_assets.dagster.events.table_metadata import ICEBERG, STORAGE_KIND
from kinesis_assets.dagster.settings.catalog_settings import entry_id
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.errors import InvalidInput
from kinesis_assets.table.store.storage import TableFolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from kinesis_assets.dagster.derived_tables import Consumption
    from kinesis_assets.dagster.settings.catalog_settings import Place

_checked: WeakSet[Any] = WeakSet()
"""The graphs of assets that were checked. Dagster resolves the selections of all streams in each."""


class CheckedSelection(dg.AssetSelection):
    """A selection that checks the derived tables of a code location when Dagster resolves it there.

    Dagster resolves the selections of automation sensors when it loads definitions. It has no other way to
    check all assets of a code location, whichever function or component defines them. If a release resolves
    them later, or in another way, such assets are refused when they run.
    """

    def __init__(self, selection: dg.AssetSelection) -> None:
        self._selection = selection

    def resolve_inner(self, asset_graph: Any, allow_missing: bool) -> AbstractSet[dg.AssetKey]:
        """Return the selected keys among the assets of a graph, after the check."""
        if asset_graph not in _checked:
            definitions = getattr(asset_graph, "assets_defs", ())  # the daemon's graph has none
            assets = {key: each for each in definitions for key in each.keys}
            refuse_shared_tables(assets)
            refuse_shared_entries(assets)
            refuse_missing_sources(assets)
            refuse_iceberg_sources(assets)
            _checked.add(asset_graph)
        return self._selection.resolve_inner(asset_graph, allow_missing=allow_missing)

    def to_serializable_asset_selection(self, asset_graph: Any) -> dg.AssetSelection:
        """Return the selection as it is without the check."""
        return self._selection.to_serializable_asset_selection(asset_graph)

    def to_selection_str(self) -> str:
        """Return the selection as text."""
        return self._selection.to_selection_str()


def refuse_shared_tables(definitions: Mapping[dg.AssetKey, dg.AssetsDefinition]) -> None:
    """Check that no derived table is the table of another asset, nor any table in the folder of another one.

    It does not matter how a path is spelled. Maintenance of an outer table may delete files of an inner one.

    Args:
        definitions: The assets of a code location. Those that are neither raw nor derived tables may name any
            table, as readers of it do.
    """
    derived: set[dg.AssetKey] = set()
    owners: dict[str, dg.AssetKey] = {}
    for key, definition in sorted(definitions.items()):
        if (consumption := consumption_of(definition)) is not None:
            derived.add(key)
            table = consumption.settings.table
        elif _is_raw(key, definition):
            table = uri_of(definition, key)
        else:
            continue
        owner = owners.setdefault(TableFolder.at(table).place, key)
        if owner != key and not derived.isdisjoint([owner, key]):
            raise InvalidInput(
                f"table {table}: it is the table of the assets {owner.to_user_string()} and "
                f"{key.to_user_string()}, and a derived table belongs to one asset. Give each asset a table "
                "of its own"
            )
    for place, key in owners.items():
        outer = next((owners[above] for above in _folders_above(place) if above in owners), None)
        if outer is not None:
            raise InvalidInput(
                f"table {place}: the table of the asset {key.to_user_string()} is in the folder of that of "
                f"{outer.to_user_string()}. Move one of them, so that no table is in the folder of another"
            )


def _folders_above(place: str) -> Iterator[str]:
    """Yield the URIs of the folders around a folder."""
    while "/" in place.partition("://")[2].rstrip("/"):
        place = place.rpartition("/")[0]
        yield place


_CATALOG = "_kinesis_catalog"


def set_catalog(raw: dg.AssetsDefinition, catalog: Mapping[str, str], place: Place) -> None:
    """Attach the catalog of a stream's raw table to its definition, and the place of its derived tables."""
    setattr(body_of(raw), _CATALOG, (catalog, place))


def refuse_shared_entries(definitions: Mapping[dg.AssetKey, dg.AssetsDefinition]) -> None:
    """Check that no two tables have the same entry in a catalog. The argument is as above.

    Raises:
        InvalidInput: Two have.
    """
    raws = {key: getattr(body_of(each), _CATALOG, None) for key, each in definitions.items()}
    owners: dict[tuple[object, ...], dg.AssetKey] = {}
    for key, definition in sorted(definitions.items()):
        consumption = consumption_of(definition)
        raw = raws.get(key if consumption is None else consumption.stream.raw_key)
        if raw is None:
            continue
        catalog, place = raw if consumption is None else (consumption.settings.catalog, raw[1])
        entry = entry_id(catalog, place, key.path[-1])
        if entry is not None and (owner := owners.setdefault(entry, key)) != key:
            raise InvalidInput(
                f"catalog: the assets {owner.to_user_string()} and {key.to_user_string()} have the same "
                f"entry {'.'.join(map(str, entry[-2:]))}. Give one of them another name or database there"
            )


def refuse_missing_sources(definitions: Mapping[dg.AssetKey, dg.AssetsDefinition]) -> None:
    """Check that the source of each derived table is a table. The argument is as above."""
    tables = derived_tables(definitions)
    for key, consumption in tables.items():
        if not has_uri(definitions, consumption.upstream):
            others = [
                other.to_user_string()
                for other, each in tables.items()
                if other != key and each.stream == consumption.stream
            ]
            raise _cannot_consume(
                key,
                consumption,
                "since the code location has no table with this asset key. The other derived tables of the "
                f"stream are {', '.join(others) or 'none'}",
            )


def refuse_iceberg_sources(definitions: Mapping[dg.AssetKey, dg.AssetsDefinition]) -> None:
    """Check that no derived table consumes an Iceberg table of another stream that it would not find.

    It knows the catalog of its own stream's raw table alone, and calls AWS as its own stream does. The
    argument is as above.

    Raises:
        InvalidInput: One does.
    """
    for key, consumption in derived_tables(definitions).items():
        upstream = definitions.get(consumption.upstream)
        if upstream is None or consumption.upstream == consumption.stream.raw_key:
            continue
        above = consumption_of(upstream)
        if above is None:
            if upstream.metadata_by_key.get(consumption.upstream, {}).get(STORAGE_KIND) != ICEBERG:
                continue
            reason = "which is the Iceberg table of another stream"
        elif not above.settings.is_iceberg or (
            _entry(above, definitions) == _entry(above, definitions, consumption)
        ):
            continue
        else:
            reason = "whose catalog is in the region, or called with the role, of another stream"
        raise _cannot_consume(key, consumption, f"{reason}. Set source to that stream")


def _cannot_consume(key: dg.AssetKey, consumption: Consumption, reason: str) -> InvalidInput:
    place = f"{consumption.place}: " if consumption.place else ""
    return InvalidInput(
        f"{place}upstream: the table {key.to_user_string()} cannot consume "
        f"{consumption.upstream.to_user_string()}, {reason}"
    )


def _entry(
    table: Consumption,
    definitions: Mapping[dg.AssetKey, dg.AssetsDefinition],
    reader: Consumption | None = None,
) -> tuple[object, ...] | None:
    """Return what identifies a table in its catalog for those of a stream, by default of its own."""
    raw = definitions.get((reader or table).stream.raw_key)
    found = None if raw is None else getattr(body_of(raw), _CATALOG, None)
    return None if found is None else entry_id(table.settings.catalog, found[1], "")


def _is_raw(key: dg.AssetKey, definition: dg.AssetsDefinition) -> bool:
    """Return whether an asset is the raw table of a stream, which has an I/O manager of its own."""
    names = StreamNames(key.path[-1].removesuffix("_raw"), tuple(key.path[:-1]))
    return names.raw_key == key and names.io_manager_key in definition.required_resource_keys
