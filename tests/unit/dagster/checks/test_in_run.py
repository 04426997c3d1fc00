"""The checks in a run that has committed rows."""

from __future__ import annotations

import logging
from types import SimpleNamespace

from kinesis_assets.dagster.checks.in_run import RunChecks
from kinesis_assets.dagster.checks.settings import Checks


class _Unreachable:
    """A Dagster instance whose database does not respond."""

    def __getattr__(self, name):
        raise ConnectionError("the database does not respond")


def test_checks_that_cannot_be_reported_do_not_fail_the_run(caplog):
    step = SimpleNamespace(instance=_Unreachable(), run_id="run")
    opened = SimpleNamespace(name="clicks", checks=Checks())
    with caplog.at_level(logging.WARNING):
        RunChecks(step, opened, listing=None).report()
    assert "stream clicks: the run cannot report the checks" in caplog.text
