"""Errors that delta-rs raises after a table was opened, such as those about expired credentials."""

from __future__ import annotations

import traceback

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.table import TableAlterer

from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.rebuild import prepare_columns
from kinesis_assets.derive.schema import accept_columns
from kinesis_assets.errors import TableNotWritable, TableUnreachable

TOKEN = "token-of-a-session"  # noqa: S105  # nobody's
EXPIRED = f"<Error><Code>ExpiredToken</Code><Token-0>{TOKEN}</Token-0></Error>"
DENIED = f"<Error><Code>AccessDenied</Code><Token-0>{TOKEN}</Token-0></Error>"


def schema(*columns):
    fields = [("_batch_id", "long"), *columns]
    return {
        "type": "struct",
        "fields": [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in fields],
    }


def add_a_column(snapshot):
    accept_columns(snapshot, schema(("at", "string"), ("price", "long")))


def prepare_a_feature(snapshot):
    prepare_columns(snapshot, schema(("at", "timestamp_ntz")))


@pytest.mark.parametrize(
    ("use", "error", "raised"),
    [
        (lambda snapshot: snapshot.newest, EXPIRED, TableUnreachable),
        (add_a_column, EXPIRED, TableUnreachable),
        (add_a_column, DENIED, TableNotWritable),
        (prepare_a_feature, EXPIRED, TableUnreachable),
        (prepare_a_feature, DENIED, TableNotWritable),
    ],
    ids=["read", "add a column", "add a column, denied", "add a feature", "add a feature, denied"],
)
def test_an_error_of_delta_is_one_of_the_package_without_its_cause(tmp_path, monkeypatch, use, error, raised):
    def fail(*_, **__):
        raise DeltaError(error)

    snapshot = DerivedTable(str(tmp_path / "orders")).open_or_create("source", schema(("at", "string")), ())
    monkeypatch.setattr(DeltaTable, "transaction_version", fail)
    monkeypatch.setattr(TableAlterer, "add_columns", fail)
    monkeypatch.setattr(TableAlterer, "add_feature", fail)
    with pytest.raises(raised) as caught:
        use(snapshot)
    assert TOKEN not in "".join(traceback.format_exception(caught.value))
