"""Findings about data files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from support.mentions import assert_mentions


def test_files_without_a_version_are_reported_with_the_age_of_the_oldest(ingested):
    folder = Path(ingested.table.uri, "arrival_date=2026-01-01")
    folder.mkdir()
    for hours in (1, 3, 2):
        orphan = folder / f"part-{hours}.parquet"
        orphan.write_bytes(b"12345")
        os.utime(orphan, (time.time() - hours * 3600, time.time() - hours * 3600))
    assert ingested.levels()["files"] == {"info"}
    (sentence,) = ingested.sentences("files")
    assert_mentions(sentence, "3 files", "15 bytes", "arrival_date=2026-01-01/part-3.parquet", " 3:0")


@pytest.mark.parametrize("checkpoint", [False, True], ids=["commits", "checkpoint"])
def test_a_file_of_an_older_version_is_not_reported(ingested, checkpoint):
    ingested.delta.delete("shard_id = 'none' OR sub_sequence_number = 0")
    if checkpoint:
        ingested.delta.create_checkpoint()
        for entry in Path(ingested.table.uri, "_delta_log").glob("0*[0-9].json"):
            entry.unlink()
    assert ingested.levels()["files"] == {"ok"}


def test_a_missing_file_of_the_current_version_is_a_problem(ingested):
    (first, *_) = sorted(Path(ingested.table.uri).glob("arrival_date=*/*.parquet"))
    first.unlink()
    ((check, _, sentence),) = ingested.problems()
    assert check == "files"
    assert first.name in sentence
