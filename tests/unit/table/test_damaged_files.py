"""Positions files and amendments that are damaged, or are not those that the log names."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.positions import positions_file
from kinesis_assets.table.positions.amendments import FORMAT as AMENDMENT_FORMAT
from kinesis_assets.table.positions.amendments import Amendment
from kinesis_assets.table.positions.positions import FORMAT
from kinesis_assets.table.raw_table import PositionedTable
from support.attempts import STREAM, current_positions, freeze_all, shards
from support.stored_positions import decoded

LATER_STREAM = msgspec.structs.replace(STREAM, created=datetime(2026, 6, 1, tzinfo=UTC))


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "newer", "not text", "not UTF-8"])
def test_damaged_positions_raise_positions_unreadable(table, frozen, damage):
    path = Path(table.uri, f"_kinesis/positions/{frozen.commit_id}.json")
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(
            {
                "empty": b"",
                "cut": content[: len(content) // 2],
                "newer": json.dumps(json.loads(content) | {"format": FORMAT + 1}).encode(),
                "not text": b"\xff\xfe\x00",
                "not UTF-8": content.replace(b"arn:", b"\xffrn:", 1),
            }[damage]
        )
    with pytest.raises(PositionsUnreadable, match=f"_kinesis/positions/{frozen.commit_id}.json"):
        freeze_all(PositionedTable(table.uri), shards("a"))


@pytest.mark.parametrize("other", ["commit_id", "stream"])
def test_a_positions_file_of_another_commit_or_stream_is_refused(table, frozen, other):
    """After a restore of the wrong file, older positions would read records a second time."""
    path = Path(table.uri, f"_kinesis/positions/{frozen.commit_id}.json")
    found = decoded(path.read_bytes())
    wrong = (
        msgspec.structs.replace(found, commit_id=frozen.commit_id - 1)
        if other == "commit_id"
        else msgspec.structs.replace(
            found, identity=msgspec.structs.replace(STREAM, arn=f"{STREAM.arn}-other")
        )
    )
    path.write_bytes(positions_file.encode(wrong))
    expected = str(frozen.commit_id - 1) if other == "commit_id" else f"{STREAM.arn}-other"
    with pytest.raises(PositionsUnreadable, match=f"{frozen.commit_id}.*{expected}.*Restore"):
        current_positions(PositionedTable(table.uri))


@pytest.mark.parametrize("other", ["commit_id", "stream"])
def test_an_amendment_file_of_another_commit_or_stream_is_refused(table, frozen, other):
    amendment = Amendment(
        format=AMENDMENT_FORMAT,
        commit_id=new_id(),
        previous=None,
        batch_id=new_id(),
        at=LATER_STREAM.created,
    )
    table.snapshot().commit([], identity=frozen.identity, amendment=amendment)
    path = Path(table.uri, f"_kinesis/past/{amendment.commit_id}.json")
    changes = {"token": amendment.commit_id - 1} if other == "commit_id" else {"arn": f"{STREAM.arn}-other"}
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    expected = str(next(iter(changes.values())))
    with pytest.raises(PositionsUnreadable, match=f"{amendment.commit_id}.*{expected}.*Restore"):
        PositionedTable(table.uri).snapshot().amendment(STREAM)


def test_an_amendment_of_format_1_without_a_stream_is_read(table, frozen):
    amendment = Amendment(format=1, commit_id=new_id(), previous=None, batch_id=1, at=LATER_STREAM.created)
    table.snapshot().commit([], identity=frozen.identity, amendment=amendment)
    path = Path(table.uri, f"_kinesis/past/{amendment.commit_id}.json")
    path.write_bytes(msgspec.json.encode(amendment))
    assert PositionedTable(table.uri).snapshot().amendment(STREAM) == amendment
