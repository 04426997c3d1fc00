"""A derived table without rows gets other columns."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.rebuild import prepare_columns
from kinesis_assets.errors import UpsertOvertaken

SOURCE = "11111111-2222-3333-4444-555555555555"


def schema(kind):
    fields = [("_batch_id", "long"), ("at", kind)]
    return {
        "type": "struct",
        "fields": [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in fields],
    }


@pytest.fixture
def snapshot(tmp_path):
    return DerivedTable(str(tmp_path / "orders")).open_or_create(SOURCE, schema("string"), ())


def test_the_feature_of_a_new_type_is_added_once(snapshot):
    prepare_columns(snapshot, schema("timestamp_ntz"))
    delta = DeltaTable(snapshot.table.uri)
    assert "timestampNtz" in delta.protocol().writer_features
    prepare_columns(snapshot.table.snapshot(), schema("timestamp_ntz"))
    assert DeltaTable(snapshot.table.uri).version() == delta.version()


def test_a_version_that_another_commit_has_overtaken_is_refused(snapshot):
    DeltaTable(snapshot.table.uri).alter.set_table_properties({"delta.appendOnly": "false"})
    with pytest.raises(UpsertOvertaken):
        prepare_columns(snapshot, schema("timestamp_ntz"))
