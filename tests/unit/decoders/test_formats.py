"""The table of formats, and decoder classes that settings name."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from kinesis_assets import KinesisTableComponent
from kinesis_assets.dagster.settings.table_settings import TableSettings
from kinesis_assets.decoders import formats
from kinesis_assets.decoders.formats import FORMATS, Changes, SchemaKind, find_format
from kinesis_assets.errors import InvalidInput
from support import dagster_components
from support.dagster_components import dagsters_own_warnings

TABLE = {"name": "orders", "source": "shop", "table": "/orders", "schema": "id BIGINT"}


@dataclass(frozen=True)
class Reversed:
    """A decoder of a project."""

    spark_type: str
    name: ClassVar[str] = "reversed"

    @classmethod
    def from_settings(cls, settings):
        return cls(settings.schema)

    def resolved(self):
        return replace(self)

    def make_step(self):
        return print


class Several(Reversed):
    """A decoder that may make several documents of a record, each with the id of its schema."""

    multiplies: ClassVar[bool] = True
    has_schema_id: ClassVar[bool] = True


class Unfinished:
    name = "unfinished"

    def resolved(self):
        return self


OWN = f"{__name__}.Reversed"


@pytest.mark.parametrize("name", FORMATS)
def test_the_decoder_of_each_format_says_what_its_entry_says(name):
    decoder, entry = FORMATS[name].load(), FORMATS[name]
    assert callable(decoder.from_settings)
    assert getattr(decoder, "multiplies", False) is entry.multiplies
    assert getattr(decoder, "has_schema_id", False) is entry.has_schema_id


@pytest.mark.parametrize(
    ("name", "schema", "kind"),
    [
        ("json", "id BIGINT", SchemaKind.DDL),
        ("json", "orders.avsc", SchemaKind.AVRO),
        ("json", "orders.json", SchemaKind.JSON),
        ("avro", "orders.json", SchemaKind.AVRO),  # with any name, the schema is one of Avro
        ("glue", {"registry": "shop", "name": "orders"}, SchemaKind.REGISTERED),
    ],
)
def test_a_schema_is_of_the_kind_that_its_text_shows(name, schema, kind):
    assert FORMATS[name].kind_of(schema) is kind
    FORMATS[name].check_schema(schema)


def test_a_decoder_class_of_a_project_is_a_format():
    found = find_format(OWN)
    assert (found.load(), found.multiplies, found.has_schema_id) == (Reversed, False, False)


def test_a_decoder_class_says_what_its_rows_have():
    found = find_format(f"{__name__}.Several")
    assert (found.multiplies, found.has_schema_id) == (True, True)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cvs", "format: must be 'json'.* or '.+', or the dotted name of a decoder class, .*not 'cvs'"),
        ("my project.Decoder", "not 'my project.Decoder'"),
        ("no_such_project.Decoder", "the module no_such_project cannot be imported: No module"),
        (f"{__name__}.Missing", f"the module {re.escape(__name__)} has no Missing; correct the name"),
        (
            f"{__name__}.Unfinished",
            "Unfinished is no decoder class, since it has no from_settings, make_step, spark_type",
        ),
        (f"{__name__}.OWN", "is no decoder class"),
    ],
)
@dagsters_own_warnings
def test_a_name_of_no_decoder_is_refused_with_its_file_and_line(name, reason):
    with pytest.raises(InvalidInput, match=reason):
        find_format(name)
    with pytest.raises(Exception, match="KinesisTableComponent") as caught:
        dagster_components.loaded(KinesisTableComponent, **TABLE | {"format": name})
    assert re.search(rf"defs\.yaml:\d+: .*{reason}", str(caught.value.__cause__))


@dagsters_own_warnings
def test_a_decoder_class_of_a_project_is_accepted_in_yaml():
    assert dagster_components.loaded(KinesisTableComponent, **TABLE | {"format": OWN})[1].assets


def test_a_format_without_its_extra_is_refused(monkeypatch):
    entry = replace(FORMATS["json"], name="other", extra="other", module="no_such_module")
    monkeypatch.setitem(formats.FORMATS, "other", entry)
    with pytest.raises(InvalidInput, match=r"other needs no_such_module: pip install"):
        TableSettings(**TABLE, format="other")


CHANGES = {"format": "changes", "key": ["id"]}


@pytest.fixture
def changes(monkeypatch):
    entry = replace(FORMATS["json"], name="changes", changes=Changes((), ("_position",)))
    monkeypatch.setitem(formats.FORMATS, "changes", entry)


@pytest.mark.usefixtures("changes")
def test_a_format_of_changes_has_defaults_in_a_table_with_a_key():
    settings = TableSettings(**TABLE | CHANGES)
    assert (settings.order_by, settings.delete_where) == (("_position",), "_operation = 'delete'")
    assert TableSettings(**TABLE | {"format": "changes"}).order_by == ()


@pytest.mark.usefixtures("changes")
def test_the_defaults_of_a_format_of_changes_can_be_replaced():
    settings = TableSettings(**TABLE | CHANGES, order_by=["id"], delete_where=None)
    assert (settings.order_by, settings.delete_where) == (["id"], None)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (
            "id BIGINT, `_Operation` STRING",
            "the format adds the column _Operation itself; remove it from the schema",
        ),
        ("id BIGINT, _source STRING", "_source must be a struct; give the fields that you need of it"),
    ],
)
@dagsters_own_warnings
def test_a_field_that_changes_cannot_have_is_refused_with_its_file_and_line(schema, reason):
    with pytest.raises(Exception, match="KinesisTableComponent") as caught:
        dagster_components.loaded(KinesisTableComponent, **TABLE | {"format": "dms", "schema": schema})
    assert re.search(rf"defs\.yaml:\d+: schema: {reason}", str(caught.value.__cause__))


@pytest.mark.slow
def test_the_table_of_formats_loads_neither_spark_nor_arrow_nor_an_extra():
    heavy = "{'pyspark', 'pyarrow', 'fastavro', 'google.protobuf', 'numpy'}"
    program = f"import sys, kinesis_assets.decoders.formats; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("name", "order_by"), [("dynamodb", "_changed_at"), ("dms", "_changed_at"), ("debezium", "_position")]
)
@dagsters_own_warnings
def test_changes_of_databases_have_their_columns_and_defaults_in_yaml(name, order_by):
    settings = TableSettings(**TABLE | {"format": name, "key": ["id"]})
    assert (settings.order_by, settings.delete_where) == ((order_by,), "_operation = 'delete'")
    select = ["id", "_operation", order_by]
    settings = TABLE | {"format": name, "key": ["id"], "select": select}
    assert dagster_components.loaded(KinesisTableComponent, **settings)[1].assets
    with pytest.raises(Exception, match="KinesisTableComponent") as caught:
        dagster_components.loaded(KinesisTableComponent, **settings | {"select": ["id", "_operation"]})
    assert re.search(rf"defs\.yaml:\d+: .*order_by: .*{order_by}", str(caught.value.__cause__))
