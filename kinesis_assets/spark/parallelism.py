"""How many tasks of a job run at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.spark.setting_names import TASKS
from kinesis_assets.spark.spark_3 import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_ELASTIC = 8
"""The least number of tasks of a job if executors are allocated dynamically and without a limit."""

_MOST = 1 << 16
"""A server's parallelism is found with a range of this size. A larger one counts as this."""


def parallelism(spark: SparkSession) -> int:
    """Return the number of tasks of a job: the setting, or how many tasks the cluster can run at once.

    With dynamic allocation, that is what its largest number of executors can run, because Spark starts more
    of them only for tasks that wait. Without a largest number, it is what the present ones can run, but at
    least `LEAST_ELASTIC`: while the cluster is idle, there may be none.
    """
    if setting := spark.conf.get(TASKS, ""):
        return int(setting)
    is_local = (spark.conf.get("spark.master", "") or "").startswith("local")  # which allocates nothing
    is_elastic = not is_local and spark.conf.get("spark.dynamicAllocation.enabled", "false") == "true"
    if is_elastic and (limit := _of_largest_cluster(spark)):
        return limit
    tasks = max(_of_present_cluster(spark), LEAST_ELASTIC if is_elastic else 1)
    if is_remote():
        spark.conf.set(TASKS, str(tasks))  # a session asks the server once
    return tasks


def _of_largest_cluster(spark: SparkSession) -> int | None:
    """Return the number of tasks of all executors that may be allocated; None if there is no limit."""
    executors = spark.conf.get("spark.dynamicAllocation.maxExecutors", "")
    # Without this setting, an executor on YARN and Kubernetes has one core.
    cores = int(spark.conf.get("spark.executor.cores", "1") or 1)
    tasks = cores // int(spark.conf.get("spark.task.cpus", "1") or 1)
    return int(executors) * tasks if executors and tasks else None


def _of_present_cluster(spark: SparkSession) -> int:
    if not is_remote():
        return spark.sparkContext.defaultParallelism
    return int(spark.conf.get("spark.default.parallelism", "") or _of_server(spark))


def _of_server(spark: SparkSession) -> str:
    """Return the default parallelism of a server, into which it splits a range."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    parts = spark.range(_MOST).select(F.spark_partition_id().alias("part"))
    (last,) = parts.agg(F.max("part")).first() or (0,)
    return str(int(last) + 1)
