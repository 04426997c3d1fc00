"""The catalogs of Iceberg tables."""

from __future__ import annotations

import sqlite3

from sqlalchemy import event
from sqlalchemy.engine import Engine

from kinesis_assets.table.store.storage import TableFolder
from support.formats import sqlite_catalog


def test_a_new_sql_catalog_is_opened_by_two_processes_at_once(tmp_path):
    catalog = sqlite_catalog(tmp_path)
    others = []

    def create_first(_connection, _cursor, statement, *_):
        if "CREATE TABLE iceberg_tables" in statement and not others:
            others.append(sqlite3.connect(tmp_path / "catalog.db"))
            others[0].execute(statement)
            others[0].close()

    event.listen(Engine, "before_cursor_execute", create_first)
    try:
        opened = catalog.open(TableFolder.at(str(tmp_path / "table")))
    finally:
        event.remove(Engine, "before_cursor_execute", create_first)
    assert others
    assert opened.list_namespaces() == []
