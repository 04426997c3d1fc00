"""The contract's line 6: nothing is given up on the word of one message, however wrong its clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.dagster.jobs.maintenance import run_maintenance
from kinesis_assets.errors import ClocksDisagree

if TYPE_CHECKING:
    from support.pipeline import Pipeline

YEAR = 365 * 24 * 3600


@pytest.mark.parametrize("ahead", [YEAR, -YEAR])
def test_no_row_expires_by_a_date_that_this_machine_does_not_confirm(
    pipeline: Pipeline, faults: Any, ahead: int
) -> None:
    pipeline.create(1)
    pipeline.put_many(10)
    pipeline.materialize()
    definitions = pipeline.project(retention_days=90).definitions
    faults.skew_date(ahead, "DescribeStreamSummary", times=1)
    with pytest.raises(ClocksDisagree):
        list(run_maintenance(definitions, pipeline.stream, pipeline.instance, dry_run=False))
    pipeline.assert_exactly_once()
    list(run_maintenance(definitions, pipeline.stream, pipeline.instance, dry_run=False))
    pipeline.assert_exactly_once()
