"""Whatever happens to a stream and to its runs, the table equals what was acknowledged."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hypothesis import given, settings

from chaos.property.chances import histories
from chaos.property.stage import House, Stage
from kinesis_assets.table.positions_chain import ChainPolicy
from kinesis_assets.table.table import PositionedTable

if TYPE_CHECKING:
    from chaos.property.histories import History

_POLICY = ChainPolicy(max_files=2, min_repeated=0, min_archived=1)
"""New bases and segments of the archive come within a history."""

_profile = settings.get_current_profile_name()
_PROFILE = settings.get_profile(_profile if _profile == "long" else "short")


@_PROFILE
@given(history=histories)
def test_table_equals_what_was_acknowledged_whatever_happens(house: House, history: History) -> None:
    with TemporaryDirectory() as folder:
        stage = Stage(house, PositionedTable(f"{folder}/table", _POLICY), history)
        try:
            for step in history.steps:
                stage.take(step)
            stage.end()
        finally:
            stage.leave()
