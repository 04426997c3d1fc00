"""A table that cannot be written to: what refuses for good is an error at once, whoever writes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from kinesis_assets.errors import CommitFailed, TableNotWritable, TableUnsuitable
from kinesis_assets.table.commit_loop import commit_until_known
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.refusals import refusal
from kinesis_assets.table.table import PositionedTable
from support.attempts import Attempt, current_summary, freeze_all, rows_by_shard, shards

if TYPE_CHECKING:
    from collections.abc import Iterator

S3 = "<?xml version='1.0'?><Error><Code>{}</Code><Message>said</Message></Error>"


@pytest.fixture
def attempt(table: PositionedTable) -> Attempt:
    """Three rows, landed and not committed."""
    return Attempt(table, freeze_all(table, shards("a")), {"a": 3})


@pytest.fixture
def read_only(attempt: Attempt) -> Iterator[None]:
    """The table with the attempt's rows, which nobody can write to any more."""
    folder = Path(attempt.table.uri)
    if os.geteuid():  # whom the mode of a folder stops
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
        subprocess.run(["umount", folder], check=True)


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The tries of commits, one entry each."""
    made: list[int] = []
    look = PositionedTable.snapshot

    def noting(table: PositionedTable):
        made.append(1)
        return look(table)

    monkeypatch.setattr(PositionedTable, "snapshot", noting)
    return made


@pytest.mark.usefixtures("read_only")
class TestReadOnly:
    def test_a_commit_fails_after_two_tries_and_one_look(self, attempt: Attempt, tries: list[int]):
        with pytest.raises(TableNotWritable, match=r"cannot be written to: .+ Nothing was committed"):
            attempt.commit()
        assert len(tries) == 3

    def test_nothing_of_it_is_committed(self, attempt: Attempt):
        with pytest.raises(TableNotWritable):
            attempt.commit()
        assert rows_by_shard(attempt.table) == {}

    def test_a_maintenance_does_nothing(self, attempt: Attempt):
        with pytest.raises(TableNotWritable):
            next(maintain(attempt.table, current_summary()))

    def test_a_dry_run_of_a_maintenance_needs_no_writing(self, attempt: Attempt):
        assert list(maintain(attempt.table, current_summary(), dry_run=True)) == []

    def test_it_is_known_before_a_commit(self, attempt: Attempt):
        with pytest.raises(TableNotWritable):
            attempt.table.require_writable()

    def test_a_table_in_a_folder_of_its_kind_cannot_be_created(self, attempt: Attempt):
        with pytest.raises(TableNotWritable):
            PositionedTable(f"{attempt.table.uri}/below").create_if_missing()


# Which commits are refused for good


class Refusals:
    """Stands in for the tries of a commit: raises what it is given, and notes whether it was to try."""

    def __init__(self, *errors: Exception | str) -> None:
        self.errors = list(errors)
        self.tried: list[bool] = []

    def __call__(self, *, may_commit: bool) -> str | None:
        self.tried.append(may_commit)
        if not self.errors or not may_commit:
            return self.errors.pop(0) if self.errors and isinstance(self.errors[0], str) else None
        told = self.errors.pop(0)
        if isinstance(told, str):
            return told
        raise told


DENIED = PermissionError(13, "Permission denied")


def test_a_single_refusal_is_tried_again(table):
    assert commit_until_known(table, Refusals(DENIED, "landed")) == "landed"


def test_a_commit_whose_answers_are_refusals_has_landed_if_the_table_says_so(table):
    look = Refusals(DENIED, DENIED, "landed")
    assert commit_until_known(table, look) == "landed"
    assert look.tried == [True, True, False]


def test_refusals_with_another_error_between_them_are_tried_on(table):
    assert commit_until_known(table, Refusals(DENIED, OSError("reset"), DENIED, "landed")) == "landed"


def test_a_full_disk_is_tried_to_the_end(table):
    with pytest.raises(CommitFailed, match="No space left"):
        commit_until_known(table, Refusals(*[OSError(28, "No space left on device")] * 40))


# Which errors these are


@pytest.mark.parametrize(
    "error",
    [
        OSError(30, "Read-only file system"),
        OSError(1, "Operation not permitted"),
        NotADirectoryError(20, "Not a directory"),
        OSError("Unable to open file /lake/_delta_log/3.json#1 ↳ Read-only file system (os error 30)"),
        OSError('Error: Os { code: 13, kind: PermissionDenied, message: "Permission denied" }'),
        OSError("AWS Error ACCESS_DENIED during CreateMultipartUpload operation: Access Denied"),
        OSError("AWS Error NO_SUCH_BUCKET during CreateMultipartUpload operation"),
        OSError(f"403 Forbidden ↳ {S3.format('AccessDenied')}"),
        OSError(f"404 Not Found ↳ {S3.format('NoSuchBucket')}"),
    ],
    ids=str,
)
def test_it_is_refused_for_good(error):
    assert refusal(error)


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        OSError(5, "Input/output error"),
        FileExistsError(17, "File exists"),
        OSError("connection reset"),
        OSError("AWS Error SLOW_DOWN during PutObject operation"),
        OSError(f"403 Forbidden ↳ {S3.format('ExpiredToken')}"),
        OSError(f"503 ↳ {S3.format('SlowDown')}"),
        OSError("file exists (os error 17)"),
    ],
    ids=str,
)
def test_another_try_may_succeed(error):
    assert refusal(error) is None


def test_the_errors_of_arrow_and_delta_are_understood_where_a_file_is_in_the_way(tmp_path):
    (tmp_path / "file").touch()
    table = PositionedTable(str(tmp_path / "file" / "table"))
    with pytest.raises(TableNotWritable, match="a file exists where a folder is needed"):
        table.create_if_missing()
    with pytest.raises(TableNotWritable, match="a file exists where a folder is needed"):
        table.require_writable()


def test_a_table_that_is_a_file_is_named_as_that(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(TableUnsuitable, match="a file, not a folder"):
        PositionedTable(str(tmp_path / "file")).create_if_missing()


def test_probing_a_table_again_leaves_one_file(table):
    freeze_all(table, shards("a"))
    before = set(Path(table.uri).rglob("*"))
    table.require_writable()
    table.require_writable()
    assert {path.name for path in set(Path(table.uri).rglob("*")) - before} == {"writable"}
    assert DeltaTable(table.uri).version() == 1
