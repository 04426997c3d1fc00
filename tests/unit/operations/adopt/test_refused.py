"""Tables that are not adopted, and tables that change while they are."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from kinesis_assets.errors import CommitFailed, InvalidInput, TableOfAnotherStream, TableUnsuitable
from kinesis_assets.operations import adopt as adopt_module
from kinesis_assets.table.delta.raw_table import DeltaSnapshot
from kinesis_assets.table.ownership import OWNER
from support.copied_table import copy_rows

pytestmark = pytest.mark.slow


def test_rows_of_another_stream_are_refused_and_nothing_is_changed(bench):
    bench.create()
    bench.put(1)
    bench.run()
    rows = bench.arrow()
    other = rows.set_column(0, rows.schema.field(0), pa.array(["another"]))
    copy_rows(bench, pa.concat_tables([rows, other]))
    with pytest.raises(TableUnsuitable, match="'another'"):
        bench.adopt()
    assert bench.version == 0


def test_a_table_of_another_stream_is_refused(bench):
    bench.create()
    bench.put(1)
    bench.run()
    copy_rows(bench)
    other = bench.client.describe().identity.arn.replace("us-east-1", "eu-west-1")
    bench.delta.alter.set_table_properties({OWNER: other}, raise_if_not_exists=False)
    with pytest.raises(TableOfAnotherStream):
        bench.adopt()


def test_adopting_fails_without_rows_to_adopt(bench):
    bench.create()
    bench.table.create_if_missing()
    with pytest.raises(InvalidInput, match="no rows"):
        bench.adopt()
    bench.put(1)
    bench.run()
    with pytest.raises(InvalidInput, match="to adopt"):
        bench.adopt()


# Changes after the plan


@pytest.fixture
def before_commit(monkeypatch):
    """Call a function after the rows were read, and before the positions are committed."""

    def before_commit(act):
        commit = adopt_module.commit_first

        def act_and_commit(*arguments, **named):
            act()
            commit(*arguments, **named)

        monkeypatch.setattr(adopt_module, "commit_first", act_and_commit)

    return before_commit


def test_adopting_fails_if_rows_are_added_after_the_plan(bench, before_commit):
    bench.create()
    bench.put(1)
    bench.run()
    copy_rows(bench)
    before_commit(lambda: write_deltalake(bench.table.uri, bench.arrow(), mode="append"))
    with pytest.raises(CommitFailed):
        bench.adopt()


def test_adopting_succeeds_if_the_table_is_compacted_after_the_plan(bench, before_commit):
    bench.create()
    bench.put(1)
    bench.run()
    bench.put(2)
    bench.run()
    rows = bench.arrow()
    copy_rows(bench, rows.slice(0, 1))
    write_deltalake(bench.table.uri, rows.slice(1), mode="append")

    def compact():
        assert bench.delta.optimize.compact()["numFilesAdded"] == 1

    before_commit(compact)
    bench.adopt()
    bench.run()
    assert bench.items == [1, 2]


def test_rows_are_read_once_if_the_files_of_the_table_do_not_change(bench, monkeypatch):
    bench.create()
    bench.put(1)
    bench.run()
    copy_rows(bench)
    read = []
    newest_rows = DeltaSnapshot.newest_rows

    def recording(*arguments):
        read.append(arguments)
        return newest_rows(*arguments)

    monkeypatch.setattr(DeltaSnapshot, "newest_rows", recording)
    bench.adopt()
    assert (len(read), bench.positions.adopted) == (1, True)
