"""The records of each recipe on docs/recipes.md become the rows that it shows, all in one job."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
import yaml
from deltalake import DeltaTable
from google.protobuf import json_format

from kinesis_assets import KinesisTableComponent, build_kinesis_stream
from kinesis_assets.table.raw_table import PositionedTable
from support.bench import Bench
from support.dagster_components import dagsters_own_warnings, loaded
from support.glue_records import avro, framed
from support.protobuf import descriptor_set, message

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kinesis_assets.kinesis.settings import ClientSettings
    from support.fixtures.glue import FixedResponses

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text()
MOST_SETTINGS = 10
SCHEMA_ID = "3f0a5a4e-6b0e-4f43-8f2c-0d5b7a3f9c11"
SNOWPLOW_VALUES = 131
"""Of which the page has the first ones. The others are empty here."""


@dataclass(frozen=True)
class Recipe:
    """A section of the page."""

    title: str
    text: str

    def block(self, language: str) -> str:
        (found,) = re.findall(rf"^```{language}\n(.*?)^```", self.text, re.MULTILINE | re.DOTALL)
        return str(found)

    @property
    def settings(self) -> dict[str, Any]:
        attributes: dict[str, Any] = yaml.safe_load(self.block("yaml"))["attributes"]
        return attributes

    @property
    def records(self) -> list[bytes]:
        """The records, as the service writes them that the section is about."""
        match self.title:
            case "Kinesis Agent":
                return [self.block("json").encode()]
            case "CloudWatch Logs":
                return [gzip.compress(each) for each in self._documents]
            case "Snowplow":
                values = self.block("tsv").rstrip("\n").split("\t")
                return ["\t".join([*values, *[""] * (SNOWPLOW_VALUES - len(values))]).encode()]
            case "Glue Schema Registry":
                schema = json.loads(self.block("avsc"))
                payments = [json.loads(each, parse_float=Decimal) for each in self._documents]
                return [framed(SCHEMA_ID, avro(schema, each)) for each in payments]
            case "Protobuf":
                made = [message(self.block("proto"), "shop.Order") for _ in self._documents]
                for each, document in zip(made, self._documents, strict=True):
                    json_format.Parse(document, each)
                return [each.SerializeToString() for each in made]
        return self._documents

    @property
    def _documents(self) -> list[bytes]:
        return [line.encode() for line in self.block("json").splitlines()]

    @property
    def files(self) -> Mapping[str, bytes]:
        """The files beside the YAML."""
        match self.title:
            case "Snowplow":
                schema = json.loads(self.block("avsc"))
                names = [f"value_{number}" for number in range(len(schema["fields"]), SNOWPLOW_VALUES)]
                schema["fields"] += [{"name": each, "type": ["null", "string"]} for each in names]
                return {"enriched.avsc": json.dumps(schema).encode()}
            case "Protobuf":
                return {"shop.desc": descriptor_set(self.block("proto"))}
        return {}

    @property
    def rows(self) -> tuple[list[str], list[list[str]]]:
        """The names of the columns that the section shows, and the texts of their values."""
        lines = [line.strip("|").split("|") for line in self.text.splitlines() if line.startswith("|")]
        names, _, *rows = [[cell.strip() for cell in line] for line in lines]
        return names, rows


RECIPES = [Recipe(*each.split("\n", 1)) for each in PAGE.split("\n## ")[1:]]


@pytest.fixture
def service(
    settings: ClientSettings, registries: FixedResponses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ClientSettings:
    """Settings of the emulator, to which the SDK's environment leads, as it does to a registry."""
    (payments,) = (each for each in RECIPES if each.title == "Glue Schema Registry")
    schema = {"DataFormat": "AVRO", "SchemaDefinition": payments.block("avsc")}
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", registries.start(200, schema))
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", str(settings.endpoint_url))
    monkeypatch.chdir(tmp_path)
    return settings


def ingested(kinesis: Any, settings: ClientSettings, recipe: Recipe) -> dg.Definitions:
    """Put the records of a recipe into its stream, ingest them, and return the stream's definitions."""
    stream, table = recipe.settings["source"], f"./raw/{recipe.settings['source']}"
    bench = Bench(kinesis, settings, stream, PositionedTable(table))
    bench.create(1)
    bench.put(*recipe.records)
    bench.run()
    kinesis.delete_stream(StreamName=stream)
    return build_kinesis_stream(stream, table=table)


def found(recipe: Recipe, names: list[str]) -> Iterator[list[str]]:
    table = DeltaTable(recipe.settings["table"]).to_pyarrow_table().select(names)
    for row in table.to_pylist(maps_as_pydicts="strict"):
        yield ["" if value is None else str(value) for value in row.values()]


@dagsters_own_warnings
@pytest.mark.usefixtures("spark")
def test_the_records_of_each_recipe_become_its_rows(
    kinesis: Any, service: ClientSettings, instance: dg.DagsterInstance
) -> None:
    streams = [ingested(kinesis, service, each) for each in RECIPES]
    tables = [loaded(KinesisTableComponent, each.files, **each.settings)[1] for each in RECIPES]
    job = dg.Definitions.merge(*streams, *tables).resolve_implicit_global_asset_job_def()
    keys = [dg.AssetKey(each.settings["name"]) for each in RECIPES]
    job.execute_in_process(instance=instance, asset_selection=keys)
    shown = {each.title: sorted(each.rows[1]) for each in RECIPES}
    assert {each.title: sorted(found(each, each.rows[0])) for each in RECIPES} == shown


@pytest.mark.parametrize("recipe", RECIPES, ids=[each.title for each in RECIPES])
def test_a_recipe_has_few_settings(recipe: Recipe) -> None:
    _, settings = recipe.block("yaml").split("attributes:\n")
    assert len(settings.splitlines()) <= MOST_SETTINGS


def test_the_first_table_of_the_page_names_each_recipe() -> None:
    table = PAGE.partition("\n## ")[0]
    assert [each.title for each in RECIPES if f"[{each.title}](#" not in table] == []
