"""docs/iceberg.md: the YAML is valid, and the SQL and the Python read tables."""

from __future__ import annotations

import re
import shlex
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kinesis_assets.cli.options import parse_settings
from kinesis_assets.dagster.settings.stream_settings import StreamSettings
from kinesis_assets.dagster.settings.table_settings import TableSettings
from kinesis_assets.kinesis.settings import ClientSettings
from support.attempts import Attempt, freeze_all, shards
from support.formats import FORMATS, iceberg_of, settings_of, table_of
from support.readers import query
from support.timing import WRITING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "iceberg.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_yaml_has_valid_settings() -> None:
    kinds = {"KinesisStreamComponent": StreamSettings, "KinesisTableComponent": TableSettings}
    opened = []
    for block in map(yaml.safe_load, blocks("yaml")):
        settings = kinds[block["type"].rpartition(".")[2]](**block["attributes"])
        name = block["attributes"].get("name", "clicks_raw")
        opened.append(settings.iceberg_catalog(name, lambda _: ClientSettings()))
    assert [(each.type, each.identifier) for each in opened] == [
        ("rest", ("lake", "clicks_raw")),
        ("glue", ("lake", "clicks_raw")),
        ("s3tables", ("raw", "clicks_raw")),
        ("rest", ("lake", "latest_orders")),
    ]


def test_the_command_has_valid_settings() -> None:
    (command,) = re.findall(r"^```\n(kinesis-assets maintain .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    given = shlex.split(command.replace("\\\n", ""))[2:]
    options = list(zip(given[::2], given[1::2], strict=True))
    pairs = [value for option, value in options if option == "--set"]
    named = {option.removeprefix("--"): value for option, value in options if option != "--set"}
    settings = StreamSettings(**named, **parse_settings(pairs))
    assert settings.name_in_catalog("orders_raw") == "lake.latest_orders"


@pytest.mark.parametrize("format_", FORMATS)
def test_the_sql_reads_the_raw_table(tmp_path: Path, format_: str) -> None:
    table = table_of(format_, str(tmp_path / "clicks"), WRITING)
    frozen = freeze_all(table, shards("a", "b"))
    Attempt(table, frozen, {"a": 3, "b": 2}).commit()
    location = table.uri if format_ == "delta" else iceberg_of(table).metadata_location
    (sql,) = blocks("sql")
    assert query(sql, clicks_raw=f"{format_}_scan('{location}')") == [
        (date(2026, 2, 2), "a", 3),
        (date(2026, 2, 2), "b", 2),
    ]


def test_the_python_reads_the_raw_table(tmp_path: Path, spark: SparkSession) -> None:
    table = table_of("iceberg", str(tmp_path / "clicks"), WRITING)
    Attempt(table, freeze_all(table, shards("a")), {"a": 3}).commit()
    (code,) = blocks("python")
    code = code.replace("s3://my-lake/raw/clicks", table.uri)
    code = re.sub(r"catalog = (\{.*\})", f"named, catalog = \\1, {settings_of(table)['catalog']}", code)
    found: dict[str, Any] = {"spark": spark}
    exec(code, found)  # noqa: S102
    assert found["named"].keys() < found["catalog"].keys()
    assert found["rows"].count() == found["new"].count() == found["seen"]["source_rows"] == 3
