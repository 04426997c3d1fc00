"""How many tasks of a job run at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.spark.setting_names import TASKS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST = 1 << 16
"""A server's parallelism is found with a range of this size. A larger one counts as this."""


def parallelism(spark: SparkSession) -> int:
    """Return the number of tasks of a job: the setting, or how many tasks the cluster can run at once.

    With dynamic allocation, that is what its largest number of executors can run, because Spark starts more
    of them only for tasks that wait.
    """
    tasks = spark.conf.get(TASKS, "") or _of_dynamic_allocation(spark)
    if tasks:
        return int(tasks)
    from pyspark.sql import is_remote  # noqa: PLC0415

    if not is_remote():
        return spark.sparkContext.defaultParallelism
    tasks = spark.conf.get("spark.default.parallelism", "") or _of_server(spark)
    spark.conf.set(TASKS, tasks)  # a session asks the server once
    return int(tasks)


def _of_dynamic_allocation(spark: SparkSession) -> int | None:
    """Return the number of tasks of all executors; None without dynamic allocation, or without its limit."""
    if spark.conf.get("spark.dynamicAllocation.enabled", "false") != "true":
        return None
    executors = spark.conf.get("spark.dynamicAllocation.maxExecutors", "")
    # Without this setting, an executor on YARN and Kubernetes has one core.
    cores = int(spark.conf.get("spark.executor.cores", "1") or 1)
    tasks = cores // int(spark.conf.get("spark.task.cpus", "1") or 1)
    return int(executors) * tasks if executors and tasks else None


def _of_server(spark: SparkSession) -> str:
    """Return the default parallelism of a server, into which it splits a range."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    parts = spark.range(_MOST).select(F.spark_partition_id().alias("part"))
    (last,) = parts.agg(F.max("part")).first() or (0,)
    return str(int(last) + 1)
