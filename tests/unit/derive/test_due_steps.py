"""Whether a step of a derived table is due although its source has no new rows for it."""

from __future__ import annotations

import pytest

from kinesis_assets.derive.data_files import routes_folder
from kinesis_assets.derive.derivation import Derivation
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.run import _Step
from support.plain_derived import PlainDerived
from support.plain_router import PlainRouter

pytestmark = pytest.mark.slow


def is_due(source, consumer):
    """Return whether the next step is due, for which no Spark is started."""
    step = _Step(None, consumer.table, Derivation(source, lambda new: new), None)
    assert step.plan() is None
    assert (step.rows.files, step.rows.replaced) == ([], [])
    return step.is_due


def consumer_of(source, folder):
    """Return a table that has consumed its source."""
    opened = open_source(source)
    consumer = PlainDerived(folder / "consumer", opened.origin_id, partitioned=False)
    consumer.append((1, 1, "a"), cursor=opened.end)
    return consumer


def test_a_table_below_a_router_moves_its_position_after_fifty_commits_without_rows_of_its_route(tmp_path):
    router = PlainRouter(str(tmp_path / "events"))
    router.append(("a", "one"))
    source = routes_folder(router.table.uri, ["one"])
    consumer = consumer_of(source, tmp_path)
    for _ in range(49):
        router.append(("b", "two"))
    assert not is_due(source, consumer)
    router.append(("b", "two"))
    assert is_due(source, consumer)


def test_a_table_below_another_one_moves_its_position_after_fifty_commits_without_rows(tmp_path):
    source = PlainDerived(tmp_path / "source", partitioned=False)
    source.append((1, 1, "a"))
    consumer = consumer_of(source.table.uri, tmp_path)
    for _ in range(49):
        source.append()
    assert not is_due(source.table.uri, consumer)
    source.append()
    assert is_due(source.table.uri, consumer)
