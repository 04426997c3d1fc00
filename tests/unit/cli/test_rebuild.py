"""Output, effect and exit codes of `kinesis-assets rebuild`, and what `redrive` refuses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.derive.commit_entry import Kind
from support.mentions import assert_mentions
from support.rebuilds import SHARD, OwnedTable

if TYPE_CHECKING:
    from support.command_line import RunCommand

pytestmark = pytest.mark.slow

FIELDS = [
    *("stream", "asset", "table", "was", "becomes"),
    *("rows_deleted", "lost_rows", "below", "reason", "applied"),
]


@pytest.fixture
def owned(project, source, tmp_path, monkeypatch) -> OwnedTable:
    """A project with a derived table that has two rows, in the current directory."""
    source.create(1)
    source.put(SHARD, 3)
    owned = OwnedTable.with_rows(project, tmp_path)
    monkeypatch.setattr(StreamProject, "of_folder", lambda *_: owned.project)
    return owned


@pytest.fixture
def options(stream, owned) -> list[str]:
    del owned
    return ["--stream", stream, "--asset", "numbers"]


@pytest.mark.parametrize(("command", "has_table"), [("rebuild --asset numbers", False), ("maintain", True)])
def test_outside_of_a_project_the_error_advises_only_an_option_of_the_command(
    cli: RunCommand, tmp_path, monkeypatch, command, has_table
):
    monkeypatch.chdir(tmp_path)
    done = cli(*command.split(), "--stream", "numbers")
    assert done.exit_code == 2
    assert "run the command in your project" in done.err
    assert ("--table" in done.err) is has_table


def test_the_plan_names_what_is_lost_and_changes_nothing(cli: RunCommand, options, owned, stream):
    owned.define("numbers", Kind.APPEND, consumed=5)
    before = owned.version
    done = cli("rebuild", *options, "--json")
    assert done.exit_code == 0, done.err
    (row,) = done.lines
    assert list(row) == FIELDS
    assert row == {
        "stream": stream,
        "asset": "numbers",
        "table": owned.derived.table.uri,
        "was": "numbers: append",
        "becomes": "numbers: append",
        "rows_deleted": 2,
        "lost_rows": 2,
        "below": ["counts"],
        "reason": None,
        "applied": False,
    }
    assert "--apply" in done.err
    assert owned.version == before


def test_an_applied_plan_empties_the_table_and_records_who_did_it(cli: RunCommand, options, owned):
    owned.define("old_name", Kind.UPSERT, "key", consumed=3)
    done = cli("rebuild", *options, "--by", "ann", "--apply", "--json")
    assert done.exit_code == 0, done.err
    (row,) = done.lines
    assert (row["was"], row["lost_rows"], row["applied"]) == ("old_name: upsert with key: [key]", 0, True)
    newest = owned.derived.table.snapshot().newest
    assert (newest.by, newest.definition.owner, newest.definition.kind) == ("ann", "numbers", Kind.APPEND)
    assert (newest.previous, newest.cursor.history, newest.consumed) == (None, -1, 0)
    assert not owned.derived.active


def test_an_unknown_loss_has_a_reason(cli: RunCommand, options, owned):
    (row,) = cli("rebuild", *options, "--json").lines
    assert (row["lost_rows"], row["was"]) == (None, None)
    assert "not recorded" in row["reason"]
    commit_id = owned.derived.table.snapshot().commit_id
    owned.derived.table.files.delete_file(f"_kinesis/derived/{commit_id}.json")
    (row,) = cli("rebuild", *options, "--json").lines
    assert_mentions(row["reason"], f"_kinesis/derived/{commit_id}.json", "missing")


def test_a_renamed_asset_takes_over_the_rows(cli: RunCommand, options, owned):
    owned.define("old_name", Kind.APPEND, consumed=3)
    done = cli("rebuild", *options, "--take-over", "--apply", "--json")
    assert done.exit_code == 0, done.err
    (row,) = done.lines
    assert (row["was"], row["becomes"], row["rows_deleted"]) == ("old_name: append", "numbers: append", 0)
    newest = owned.derived.table.snapshot().newest
    assert (newest.definition.owner, newest.consumed, len(owned.derived.active)) == ("numbers", 3, 1)
    assert cli("rebuild", *options, "--take-over", "--apply").exit_code == 2


def test_an_asset_that_is_no_derived_table_is_bad_input(cli: RunCommand, stream, owned):
    del owned
    done = cli("rebuild", "--stream", stream, "--asset", "orders", "--apply")
    assert (done.exit_code, done.out) == (2, "")
    assert_mentions(done.err, "orders", "counts, numbers")


def test_a_table_that_cannot_be_rebuilt_fails_in_one_line(cli: RunCommand, stream, owned):
    del owned
    done = cli("rebuild", "--stream", stream, "--asset", "counts", "--apply")
    assert (done.exit_code, done.out) == (1, "")
    assert re.fullmatch(r"Error: .+there is no table.+\n", done.err)


@pytest.mark.parametrize(
    ("asset", "said"),
    [("counts", "it is a roll-up"), ("orders", "these are counts, numbers")],
)
def test_a_redrive_of_what_has_no_bad_records_is_bad_input(cli: RunCommand, stream, owned, asset, said):
    before = owned.version
    done = cli("redrive", "--stream", stream, "--asset", asset, "--apply")
    assert (done.exit_code, done.out) == (2, "")
    assert_mentions(done.err, said)
    assert owned.version == before
