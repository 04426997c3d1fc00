"""The settings of a Spark server."""

from __future__ import annotations

from kinesis_assets.spark.server import SparkServer
from kinesis_assets.spark.setting_names import WORKER_DAEMON


def test_workers_import_this_package_only_in_tasks_because_sessions_may_bring_another_version(tmp_path):
    assert WORKER_DAEMON not in SparkServer(tmp_path / "log")._settings()
