"""A router in a project, whose tables have the numbers of the documents of two kinds."""

from __future__ import annotations

import json
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from kinesis_assets import KinesisRoutesComponent
from support.dagster_components import loaded

if TYPE_CHECKING:
    from pathlib import Path

    import dagster as dg


class RoutedProject:
    """The router `events` of a stream, and the tables `placed` and `paid` below it.

    Attributes:
        names: The names of the assets.
    """

    names = ("events", "placed", "paid")

    def __init__(self, kinesis: Any, stream: str, folder: Path) -> None:
        self._kinesis = kinesis
        self._stream = stream
        self._tables = {name: str(folder / name) for name in self.names}
        self._numbers = count()

    @cached_property
    def definitions(self) -> dg.Definitions:
        router, *routes = self.names
        _, definitions = loaded(
            KinesisRoutesComponent,
            name=router,
            source=self._stream,
            table=self._tables[router],
            format="json",
            route_by="kind",
            routes=[
                {"match": name, "name": name, "table": self._tables[name], "schema": "number INT"}
                for name in routes
            ],
        )
        return definitions

    def put(self, *kinds: str) -> None:
        """Put a document of each kind, which has the next number."""
        for kind in kinds:
            data = json.dumps({"kind": kind, "number": next(self._numbers)}).encode()
            self._kinesis.put_record(StreamName=self._stream, Data=data, PartitionKey="k")

    @property
    def numbers(self) -> dict[str, list[int]]:
        """The numbers in the tables below the router that exist."""
        _, *routes = self.names
        return {
            name: sorted(DeltaTable(self._tables[name]).to_pyarrow_table()["number"].to_pylist())
            for name in routes
            if DeltaTable.is_deltatable(self._tables[name])
        }
