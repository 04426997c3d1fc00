"""`infer` proposes a YAML that loads unchanged."""

from __future__ import annotations

import gzip
import json

import pytest
import yaml

from kinesis_assets import KinesisTableComponent
from support.command_line import single_line_error
from support.dagster_components import dagsters_own_warnings, loaded
from support.mentions import assert_mentions

pytestmark = pytest.mark.slow


@pytest.fixture
def infer(cli, bench):
    """Runs the command on the bench's table, which gets some records first."""

    def infer(*payloads: bytes, options=()):
        bench.create()
        bench.put(*payloads)
        bench.run()
        return cli("infer", *bench.options, *options)

    return infer


def document(**fields):
    return json.dumps(fields).encode()


@dagsters_own_warnings
def test_the_proposal_loads_unchanged(infer, bench):
    done = infer(document(order_id=1, at="2026-01-31T12:00:00Z", lines=[{"sku": "a", "count": 2}]))
    assert done.exit_code == 0
    proposed = yaml.safe_load(done.out)
    assert proposed["type"] == "kinesis_assets.KinesisTableComponent"
    assert proposed["attributes"] == {
        "name": f"{bench.stream}_typed",
        "source": bench.stream,
        "table": f"{bench.table.uri}_typed",
        "format": "json",
        "schema": "order_id BIGINT,\nat TIMESTAMP,\nlines ARRAY<STRUCT<sku: STRING, count: BIGINT>>",
    }
    component, definitions = loaded(KinesisTableComponent, **proposed["attributes"])
    assert component == KinesisTableComponent(**proposed["attributes"])
    assert len(definitions.assets) == 1


def test_the_schema_has_a_line_for_each_field(infer):
    assert "  schema: |-\n    a BIGINT,\n    b STRING\n" in infer(document(a=1, b="x")).out


def test_a_field_that_cannot_be_a_column_is_selected_under_another_name(infer):
    proposed = yaml.safe_load(infer(document(error="none", id=1, **{"a.b\n": 2})).out)
    assert proposed["attributes"]["select"] == ["error AS error_", "id", "`a.b\n` AS a_b_"]


@pytest.mark.parametrize("compress", [gzip.compress], ids=["gzip"])
def test_compressed_records_are_recognized(infer, compress):
    attributes = yaml.safe_load(infer(compress(document(a=1))).out)["attributes"]
    assert (attributes["compression"], attributes["schema"]) == ("gzip", "a BIGINT")


def test_comments_say_what_the_schema_does_not_decode(infer):
    lines = infer(document(a=1), document(a="x"), b"text").out.splitlines()
    comments = [line for line in lines if line.startswith("#")]
    assert comments[0].startswith("# Proposed from 3 records of ")
    assert_mentions(comments[1], "# 1 ", "not JSON", "error")
    assert_mentions(comments[2], "# a ", "BIGINT", "STRING", "VARIANT")


def test_the_sample_is_bounded(infer):
    done = infer(*(document(a=number) for number in range(9)), options=["--sample", "4"])
    assert done.out.startswith("# Proposed from 4 records of ")


def test_the_sample_is_taken_from_several_files(infer, bench, cli):
    infer(document(a=1), document(a=1))
    bench.put(document(b=1), document(b=1))
    bench.run()
    done = cli("infer", *bench.options, "--sample", "2")
    assert yaml.safe_load(done.out)["attributes"]["schema"] == "b BIGINT,\na BIGINT"


def test_records_without_json_are_refused_in_one_line(infer):
    done = infer(b"text", b"\x03\x00" + bytes(16))
    assert done.exit_code == 2
    assert_mentions(single_line_error(done.err), "2 records", "JSON", "format: glue")


def test_records_without_fields_are_refused_in_one_line(infer):
    done = infer(document())
    assert done.exit_code == 2
    assert_mentions(single_line_error(done.err), "1 records", "fields")


def test_a_missing_table_is_an_error_in_one_line(cli, tmp_path):
    done = cli("infer", "--stream", "clicks", "--table", str(tmp_path / "nothing"))
    assert done.exit_code == 1
    assert str(tmp_path / "nothing") in single_line_error(done.err)


def test_routes_are_proposed_for_several_kinds_with_a_line_for_each_field(infer):
    kinds = [{"kind": "ride", "km": 1}, {"kind": "ping", "battery": 0.5}]
    done = infer(*(document(**kind) for kind in kinds for _ in range(3)))
    assert yaml.safe_load(done.out)["type"] == "kinesis_assets.KinesisRoutesComponent"
    assert "    schema: |-\n      kind STRING,\n      km BIGINT\n" in done.out
    assert "# kind is ride in 3 of 6 documents (50.0%).\n" in done.out
