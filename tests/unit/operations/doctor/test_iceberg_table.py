"""The doctor of an Iceberg table."""

from __future__ import annotations

import pytest

from kinesis_assets.operations.doctor.examine import examine, file_findings
from kinesis_assets.operations.doctor.finding import Level
from kinesis_assets.table.store.storage import data_files_in
from support.formats import restore, table_of
from support.timing import WRITING


@pytest.fixture
def landed(bench, tmp_path):
    """A table with the records of two runs."""
    bench.table = table_of("iceberg", str(tmp_path / "iceberg"), WRITING)
    bench.create()
    for item in (1, 2):
        bench.put(item)
        bench.run()
    return bench


def problems(bench):
    found = examine(bench.client, bench.table)
    return [(each.check, each.sentence) for each in found if each.level is Level.PROBLEM]


def test_a_sound_table_has_no_problem(landed):
    assert problems(landed) == []


def test_a_rollback_and_a_missing_file_are_problems(landed):
    restore(landed.table, 2)
    found = dict(problems(landed))
    assert found.keys() == {"log", "restore"}
    assert "rollback" in found["restore"]
    (file,) = landed.table.snapshot().data_files()
    landed.table.files.delete_file(file.path)
    assert dict(problems(landed)).keys() == {"log", "restore", "files"}


def test_files_committed_while_the_doctor_works_belong_to_a_version(landed):
    opened = landed.table.snapshot()
    landed.put(3)
    landed.run()
    folder = data_files_in(landed.table.files)
    assert list(file_findings(landed.table, opened, folder)) == []
