"""Steps of a typed table that are refused for records that cannot be decoded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kinesis_assets.derive import run as derive_run
from kinesis_assets.errors import BadRecordsRefused
from support.derived import maintain_derived, order
from support.mentions import assert_mentions
from support.typed_tables import BAD, REASON


def test_with_fail_a_record_that_cannot_be_decoded_fails_the_run(typed):
    typed.consume(order(1), on_bad_record="fail")
    with pytest.raises(BadRecordsRefused) as caught:
        typed.consume(order(2), BAD, on_bad_record="fail")
    reason = str(caught.value)
    assert reason.startswith(f"table {typed.derived.table.uri}: 1 of 2 records ")
    assert_mentions(reason, REASON, "on_bad_record", "keep", "separate")
    assert typed.values("id") == [1]
    typed.consume(on_bad_record="separate")
    assert typed.values("id") == [1, 2]


@pytest.mark.parametrize("key", [{}, {"key": ("id",), "order_by": ("amount",)}], ids=["append", "upsert"])
@pytest.mark.parametrize("policy", [pytest.param("keep", marks=pytest.mark.thorough), "separate"])
def test_a_step_with_a_larger_share_of_bad_records_is_refused(typed, policy, key):
    half = {"on_bad_record": policy, "max_bad_share": 0.5} | key
    typed.consume(order(1), BAD, where="id < 9", **half)
    before = typed.derived.rows
    with pytest.raises(BadRecordsRefused, match=r"2 of 3 records.*0\.667.*max_bad_share.*0\.5"):
        typed.consume(order(2), BAD, BAD, where="id < 9", **half)
    assert typed.derived.rows == before
    typed.consume(order(3), order(9), BAD, where="id < 9", **half)  # of six records, one is left out
    assert [id_ for id_ in typed.values("id") if id_] == [1, 2, 3]


def test_a_generator_multiplies_no_records_of_the_share(typed):
    lines = {"schema": "lines ARRAY<INT>", "select": ["explode_outer(lines) AS line"], "max_bad_share": 0.4}
    with pytest.raises(BadRecordsRefused, match="1 of 2 records"):
        typed.consume(b'{"lines": [1, 2, 3]}', b'{"lines": 4}', **lines)
    typed.consume(**lines | {"max_bad_share": 0.5})
    assert typed.values("line") == [1, 2, 3, None]


def test_the_files_of_a_refused_step_are_deleted(typed):
    folder = Path(typed.derived.table.uri)
    with pytest.raises(BadRecordsRefused):
        typed.consume(order(1), BAD, max_bad_share=0.1)
    assert list(folder.glob("part-*.parquet")) == []
    typed.consume(max_bad_share=0.5)
    committed = list(folder.glob("part-*.parquet"))
    with pytest.raises(BadRecordsRefused):
        typed.consume(BAD, max_bad_share=0.5)
    assert list(folder.glob("part-*.parquet")) == committed
    assert typed.values("id") == [1, None]


def test_files_of_a_refused_step_that_are_left_are_in_no_version_until_vacuum_deletes_them(
    typed, monkeypatch
):
    folder = Path(typed.derived.table.uri)
    monkeypatch.setattr(derive_run, "discard", lambda *_: None)
    with pytest.raises(BadRecordsRefused):
        typed.consume(order(1), BAD, max_bad_share=0.1)
    refused = {path.name for path in folder.glob("part-*.parquet")}
    assert refused
    typed.consume(max_bad_share=0.5)
    assert typed.values("id") == [1, None]
    assert refused.isdisjoint(map(os.path.basename, DeltaTable(str(folder)).file_uris()))
    for path in folder.glob("part-*.parquet"):
        os.utime(path, (0, 0))
    maintain_derived(typed.derived)
    assert refused.isdisjoint(path.name for path in folder.glob("part-*.parquet"))
    assert typed.values("id") == [1, None]


def test_the_first_step_is_refused_before_the_table_is_created(typed):
    with pytest.raises(BadRecordsRefused):
        typed.consume(order(1), BAD, max_bad_share=0.1, schema="id INT, amount STRING")
    assert typed.is_missing()
    typed.consume(max_bad_share=0.5)
    assert typed.values("id", "amount") == [(1, 1.0), (None, None)]


@pytest.mark.parametrize("select", [[], ["*"]], ids=["fields", "expressions"])
def test_a_step_is_refused_before_a_column_is_added(typed, select):
    limited = {"max_bad_share": 0.1, "select": select}
    typed.consume(order(1), **limited)
    with pytest.raises(BadRecordsRefused):
        typed.consume(order(2, item="x"), schema="id INT, amount DOUBLE, item INT", **limited)
    assert "item" not in typed.columns
    typed.consume(schema="id INT, amount DOUBLE, item STRING", **limited)
    assert typed.values("id", "item") == [(1, None), (2, "x")]
