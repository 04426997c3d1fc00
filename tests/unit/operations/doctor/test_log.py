"""Findings about the log of the table: restores, overwrites and lost entries."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import write_deltalake

from kinesis_assets.errors import TableRewritten
from kinesis_assets.table.positions.positions_chain import positions_path
from support.mentions import assert_mentions

pytestmark = pytest.mark.slow


def put_and_run(bench):
    bench.put(1)
    bench.run()


# Restores and overwrites


def test_a_restored_table_is_a_problem(growing):
    growing.restore(growing.version - 1)
    assert [check for check, _, _ in growing.problems()] == ["restore"]
    growing.put(1)
    with pytest.raises(TableRewritten):
        growing.run()


def test_a_table_overwritten_by_a_write_is_a_problem(ingested):
    write_deltalake(ingested.table.uri, ingested.delta.to_pyarrow_table(), mode="overwrite")
    ((check, _, sentence),) = ingested.problems()
    assert check == "restore"
    assert_mentions(sentence, f"version {ingested.version} ", "WRITE", "Overwrite")


def test_an_accepted_restore_is_not_a_problem_until_the_next_one(growing):
    growing.restore(growing.version - 1)
    growing.amend(accepted=growing.version)
    assert growing.levels()["restore"] == {"info"}
    put_and_run(growing)
    growing.restore(growing.version - 1)
    assert growing.levels()["restore"] == {"info", "problem"}


# Entries of the log


def entry_of(bench, version):
    return Path(bench.table.uri, "_delta_log", f"{version:020}.json")


def test_a_log_entry_overwritten_by_another_commit_is_a_problem(growing):
    """A store that ignores conditional puts loses a version on which the next commit is based."""
    put_and_run(growing)
    lost, version = growing.positions.commit_id, growing.version
    put_and_run(growing)
    entry = entry_of(growing, version)
    entry.write_text(entry.read_text().replace(str(lost), str(lost + 1)))
    wrong_parent, no_version = growing.sentences("log")
    assert_mentions(wrong_parent, f"version {version} ", f"commit {lost + 1}", "ancestor")
    assert_mentions(no_version, "no version", f"commit {lost}")


def test_an_overwritten_log_entry_of_an_amendment_is_a_problem(ingested):
    for _ in range(3):
        ingested.amend()
    version = ingested.version - 1
    entry = entry_of(ingested, version)
    entry.write_text("\n".join(line for line in entry.read_text().splitlines() if '"txn"' not in line))
    assert [check for check, _, _ in ingested.problems()] == ["log"]


def test_log_entries_of_pruned_commits_are_not_a_problem(growing):
    put_and_run(growing)
    first = growing.positions.previous
    put_and_run(growing)
    Path(growing.table.uri, positions_path(first)).unlink()
    assert growing.levels()["log"] == {"ok"}


def test_a_log_that_starts_after_the_first_commits_is_not_a_problem(growing):
    put_and_run(growing)
    growing.delta.create_checkpoint()
    for version in range(growing.version):
        entry_of(growing, version).unlink()
    assert growing.levels()["log"] == {"ok"}
