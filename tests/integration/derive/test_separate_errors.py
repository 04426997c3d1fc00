"""A typed table decides which records cannot be decoded, and its table of errors has these."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from kinesis_assets.decoders import Json, SchemaVersion, decode
from kinesis_assets.decoders.projection import MARK, Projection, errors
from kinesis_assets.derive import commit as commits
from kinesis_assets.derive import run as runs
from kinesis_assets.derive.data_files import ERRORS_FOLDER
from kinesis_assets.derive.derivation import CheckedRows
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.policy import OnDeleted
from kinesis_assets.derive.rebuild import rebuild
from kinesis_assets.errors import CursorConflict, LandingFailed, SourceCommitsMissing
from support.derived import order
from support.formats import source_format
from support.glue_records import framed
from support.typed_tables import BAD

pytestmark = pytest.mark.any_format

STRICT = "id INT, amount DOUBLE"
CORRECTED = "id STRING, amount DOUBLE"
"""The schema with which `BAD` can be decoded."""

GOOD = order(None)

KEYED = {"key": ("number",), "order_by": ("amount",), "select": ["amount", "sequence_number AS number"]}


@pytest.fixture
def separate(typed):
    """Consumes into the typed table, as `TypedBench.consume` does."""

    def separate(*payloads, **settings):
        return typed.consume(*payloads, **{"on_bad_record": "separate"} | settings)

    return separate


def errors_of(typed, **settings):
    return [row["data"] for row in typed.errors(**settings)]


@pytest.mark.parametrize(
    "settings", [pytest.param({}, marks=pytest.mark.thorough), KEYED], ids=["append", "upsert"]
)
def test_a_schema_that_is_corrected_between_the_runs_of_the_tables_loses_and_doubles_no_record(
    typed, separate, settings
):
    settings = {"select": ["amount", "sequence_number AS number"]} | settings
    separate(GOOD, BAD, schema=STRICT, **settings)
    assert errors_of(typed, schema=CORRECTED) == [BAD]
    separate(GOOD, BAD, schema=CORRECTED, **settings)
    assert errors_of(typed, schema=STRICT) == [BAD]
    separate(GOOD, BAD, schema=STRICT, **settings)
    assert errors_of(typed, schema=STRICT) == [BAD] * 2
    good, bad = {*typed.values("number")}, {row["sequence_number"] for row in typed.errors()}
    assert (len(good), len(bad), len(good | bad)) == (4, 2, 6)


def test_a_step_without_bad_records_writes_rows_alone(separate, monkeypatch):
    folders = []
    write = runs.write_beside
    monkeypatch.setattr(runs, "write_beside", lambda *args: folders.append(args[2]) or write(*args))
    separate(order(1))
    assert folders == []
    separate(BAD)
    assert folders == [ERRORS_FOLDER]


def test_an_attempt_that_was_overtaken_adds_no_bad_record(typed, separate, monkeypatch):
    separate(order(1), BAD)
    commit = runs.commit

    def overtaken(*args, **settings):
        monkeypatch.setattr(runs, "commit", commit)
        separate()
        return commit(*args, **settings)

    monkeypatch.setattr(runs, "commit", overtaken)
    with pytest.raises(CursorConflict):
        separate(order(2), BAD)
    assert (typed.values("id"), errors_of(typed)) == ([1, 2], [BAD] * 2)


def test_a_record_that_can_be_decoded_the_second_time_fails_the_step(typed, separate):
    def transform(new):
        decoded = decode(Json(STRICT))(new)
        found = errors(decoded).limit(1)
        return CheckedRows(Projection().marked(decoded), MARK, keeps_errors=False, separate=found)

    typed.bench.put(order(1), BAD, BAD)
    typed.bench.run()
    with pytest.raises(LandingFailed, match="of 3 records 2 could not be decoded, and then 1"):
        typed.derived.run(transform=transform)
    assert [*Path(typed.derived.table.uri).rglob("*.parquet")] == []
    separate()
    assert (typed.values("id"), errors_of(typed)) == ([1], [BAD] * 2)


def test_a_table_of_errors_of_an_older_release_is_taken_over(typed, separate, monkeypatch):
    decoded = decode(Json(STRICT))
    with monkeypatch.context() as older:
        older.setattr(commits, "FORMAT", 2)
        separate(GOOD, BAD)
        old = replace(typed.derived, table=typed.errors_table)
        old.run(transform=lambda new: CheckedRows(errors(decoded(new)), "error"))
    assert errors_of(typed) == [BAD]
    newest = typed.errors_table.snapshot().newest
    assert newest.cursor.source == typed.derived.table.snapshot().id
    separate(BAD, order(2))
    assert errors_of(typed) == [BAD] * 2


def test_a_schema_that_is_registered_between_the_runs_changes_nothing(typed, separate, monkeypatch):
    schema_id, versions = UUID(int=1), {}
    monkeypatch.setattr("kinesis_assets.decoders.glue.GlueRegistry.resolved", lambda _: versions)
    separate(framed(str(schema_id), b"{}"), format="glue")
    versions[str(schema_id)] = SchemaVersion("JSON", "{}")
    (row,) = typed.errors(format="glue")
    assert (row["schema_id"], row["error"]) == (
        str(schema_id),
        f"glue: schema version {schema_id}: not found",
    )
    assert typed.values("id") == []


def test_a_rebuild_of_the_typed_table_asks_for_one_of_its_errors(typed, separate):
    separate(GOOD, BAD)
    assert errors_of(typed) == [BAD]
    source = open_source(typed.bench.table.uri, format=source_format(typed.bench.table))
    table = typed.derived.table
    rebuild(table, source, typed.derived.derivation.definition, (), by="ann", apply=True)
    separate(schema=CORRECTED)
    with pytest.raises(SourceCommitsMissing, match="it was rebuilt"):
        typed.run_errors()
    typed.run_errors(on_deleted=OnDeleted.REBUILD)
    assert (len(typed.values("id")), errors_of(typed)) == (2, [])
