"""Typed tables of the kinds of documents in one stream, defined in one YAML."""

from __future__ import annotations

import dagster as dg

from kinesis_assets.dagster.components.table_component import typed_assets
from kinesis_assets.dagster.components.yaml_component import AssetRole, SettingsScaffolder, YamlComponent
from kinesis_assets.dagster.derived.derived_asset import build_derived_table
from kinesis_assets.dagster.derived.typed_rows import RoutedRows, RouterRows, lineage_of_router
from kinesis_assets.dagster.settings.routes_settings import RoutesSettings
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.errors import InvalidInput


class RoutesScaffolder(SettingsScaffolder):
    """`dg scaffold defs kinesis_assets.KinesisRoutesComponent`. The name is that of the folder by default."""

    settings = RoutesSettings
    named_by_folder = "name"


@dg.scaffold_with(RoutesScaffolder)
class KinesisRoutesComponent(RoutesSettings, YamlComponent):
    """Route the documents of a stream to typed tables by the value of a field, each document exactly once."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the assets of the router, of the table of each route, and of separate errors."""
        names = StreamNames.parse(self.source)
        key = dg.AssetKey.from_user_string(self.name)
        roles: dict[dg.AssetKey, AssetRole] = {key: "router"}
        assets = [
            build_derived_table(
                key,
                self.router,
                RouterRows(self).of_router,
                routed_to=len({route for _, route in self.values}) + 1,
                description=f"The documents of {names.stream}, by {self.route_by}, in {self.table}. In those "
                "that no route matches, route is null.",
                metadata={"dagster/column_lineage": lineage_of_router(names.raw_key)},
                place=self._positions.place_of("source"),
            )
        ]
        for number, table in enumerate(self.tables):
            try:
                of_route, roles_of_route = typed_assets(
                    table,
                    context,
                    rows_of=RoutedRows,
                    routes=table.routes,
                    description=f"The documents of {names.stream} whose {self.route_by} is "
                    f"{' or '.join(table.routes)}, in {table.table}.",
                )
            except InvalidInput as error:
                raise self._positions.at_line(InvalidInput(f"routes[{number}]: {error}")) from None
            assets += of_route
            roles |= roles_of_route
        return self.customized(context, names.stream, roles, dg.Definitions(assets=assets))
