"""Tables that are not writable: a permanent refusal is reported without further tries."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from kinesis_assets.errors import CommitFailed, TableNotWritable, TableUnsuitable
from kinesis_assets.table.commits.commit_loop import commit_until_known
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.raw_table import PositionedTable
from support.attempts import Attempt, current_summary, freeze_all, rows_by_shard, shards

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def attempt(table: PositionedTable) -> Attempt:
    """An attempt with three rows that is not committed yet."""
    return Attempt(table, freeze_all(table, shards("a")), {"a": 3})


@pytest.fixture
def read_only(attempt: Attempt) -> Iterator[None]:
    """Make the table of the attempt read-only."""
    folder = Path(attempt.table.uri)
    if os.geteuid():  # permission bits do not apply to root
        for each in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
            each.chmod(0o555)
        yield
        for each in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
            each.chmod(0o755)
        return
    try:
        subprocess.run(["mount", "--bind", folder, folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("root can write everywhere, and may not mount here")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True, capture_output=True)
        yield
    finally:
        # Lazily: a file of the table may still be open.
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets an entry each time that a commit reads the table."""
    made: list[int] = []
    original = PositionedTable.snapshot

    def recording(table: PositionedTable):
        made.append(1)
        return original(table)

    monkeypatch.setattr(PositionedTable, "snapshot", recording)
    return made


@pytest.mark.usefixtures("read_only")
class TestReadOnly:
    def test_a_commit_fails_after_two_tries_and_one_read(self, attempt: Attempt, tries: list[int]):
        with pytest.raises(TableNotWritable, match="Nothing was committed"):
            attempt.commit()
        assert len(tries) == 3

    def test_a_failed_commit_adds_no_rows(self, attempt: Attempt):
        with pytest.raises(TableNotWritable):
            attempt.commit()
        assert rows_by_shard(attempt.table) == {}

    def test_maintenance_fails(self, attempt: Attempt):
        with pytest.raises(TableNotWritable):
            next(maintain(attempt.table, current_summary()))

    def test_a_dry_run_of_maintenance_succeeds(self, attempt: Attempt):
        assert list(maintain(attempt.table, current_summary(), dry_run=True)) == []

    def test_the_writability_check_fails(self, attempt: Attempt):
        with pytest.raises(TableNotWritable):
            attempt.table.require_writable()

    def test_a_table_below_a_read_only_folder_cannot_be_created(self, attempt: Attempt):
        with pytest.raises(TableNotWritable):
            PositionedTable(f"{attempt.table.uri}/below").create_if_missing()


# Which commits end without further tries


class Refusals:
    """A replacement for the tries of a commit: raises the given errors and records `may_commit`."""

    def __init__(self, *errors: Exception | str) -> None:
        self.errors = list(errors)
        self.tried: list[bool] = []

    def __call__(self, *, may_commit: bool) -> str | None:
        self.tried.append(may_commit)
        if not self.errors or not may_commit:
            return self.errors.pop(0) if self.errors and isinstance(self.errors[0], str) else None
        outcome = self.errors.pop(0)
        if isinstance(outcome, str):
            return outcome
        raise outcome


DENIED = PermissionError(13, "Permission denied")


def test_a_commit_is_repeated_after_one_refusal(table):
    assert commit_until_known(table, Refusals(DENIED, "landed")) == "landed"


def test_a_refused_commit_succeeds_if_it_is_found_in_the_table(table):
    attempts = Refusals(DENIED, DENIED, "landed")
    assert commit_until_known(table, attempts) == "landed"
    assert attempts.tried == [True, True, False]


def test_refusals_that_are_not_consecutive_are_repeated(table):
    assert commit_until_known(table, Refusals(DENIED, OSError("reset"), DENIED, "landed")) == "landed"


def test_a_full_disk_is_not_a_permanent_refusal(table):
    with pytest.raises(CommitFailed, match="No space left"):
        commit_until_known(table, Refusals(*[OSError(28, "No space left on device")] * 40))


def test_a_file_in_place_of_a_parent_folder_is_reported(tmp_path):
    (tmp_path / "file").touch()
    table = PositionedTable(str(tmp_path / "file" / "table"))
    with pytest.raises(TableNotWritable, match="file exists"):
        table.create_if_missing()
    with pytest.raises(TableNotWritable, match="file exists"):
        table.require_writable()


def test_a_file_in_place_of_the_table_is_reported(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(TableUnsuitable, match="not a folder"):
        PositionedTable(str(tmp_path / "file")).create_if_missing()


def test_repeated_writability_checks_leave_one_file(table):
    freeze_all(table, shards("a"))
    before = set(Path(table.uri).rglob("*"))
    table.require_writable()
    table.require_writable()
    assert {path.name for path in set(Path(table.uri).rglob("*")) - before} == {"writable"}
    assert DeltaTable(table.uri).version() == 1
