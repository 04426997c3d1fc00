"""Property: after any history of a stream and its runs, the table equals what was acknowledged."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from chaos.property.scenario import Scenario, SharedResources
from chaos.property.strategies import histories
from kinesis_assets.table.data_file_writer import FileLayout
from kinesis_assets.table.policy import CommitRetries, TablePolicy
from kinesis_assets.table.positions.positions_chain import ChainPolicy
from support.formats import raw_table
from support.timing import NO_WAIT

if TYPE_CHECKING:
    from chaos.property.histories import History

_POLICY = TablePolicy(
    ChainPolicy(max_files=2, min_repeated=0, min_archived=1),
    CommitRetries(backoff=NO_WAIT),
    FileLayout(row_group_bytes=500, file_bytes=2000, open_files=2),
)
"""New bases, segments of the archive, row groups and files come within a history."""

pytestmark = pytest.mark.any_format

_profile = settings.get_current_profile_name()
_PROFILE = settings.get_profile(_profile if _profile == "long" else "short")


@_PROFILE
@given(history=histories)
def test_the_table_equals_the_acknowledged_records_after_any_history(
    shared: SharedResources, history: History
) -> None:
    _live(shared, history)


@settings(_PROFILE, max_examples=_PROFILE.max_examples // 6)
@given(history=histories)
def test_the_table_equals_the_acknowledged_records_after_any_history_of_a_consumer(
    shared: SharedResources, history: History
) -> None:
    _live(shared, history, by_subscriptions=True)


def _live(shared: SharedResources, history: History, *, by_subscriptions: bool = False) -> None:
    with TemporaryDirectory() as folder:
        table = raw_table(f"{folder}/table", _POLICY)
        scenario = Scenario(shared, table, history, by_subscriptions=by_subscriptions)
        try:
            for step in history.steps:
                scenario.take(step)
            scenario.end()
        finally:
            scenario.leave()
