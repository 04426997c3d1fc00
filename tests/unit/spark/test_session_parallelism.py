"""How many tasks a job has, by the settings of a session."""

from __future__ import annotations

import pytest

from kinesis_assets.spark.session import LEAST_ELASTIC, parallelism


class Session:
    """A double of a session of Spark, of which only settings and the default parallelism are read."""

    def __init__(self, settings, cores=2):
        self.conf = settings
        self.sparkContext = self
        self.defaultParallelism = cores


ELASTIC = {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.maxExecutors": "10"}


@pytest.mark.parametrize(
    ("settings", "tasks"),
    [
        ({}, 2),
        ({"spark.kinesis_assets.tasks": "7"}, 7),
        (ELASTIC, 10),
        (ELASTIC | {"spark.executor.cores": "4"}, 40),
        (ELASTIC | {"spark.executor.cores": "4", "spark.task.cpus": "2"}, 20),
        (ELASTIC | {"spark.kinesis_assets.tasks": "7"}, 7),
        (ELASTIC | {"spark.dynamicAllocation.enabled": "false"}, 2),
        (ELASTIC | {"spark.master": "local[2]"}, 2),
    ],
)
def test_the_setting_then_the_largest_cluster_then_the_present_one(settings, tasks):
    assert parallelism(Session(settings)) == tasks


@pytest.mark.parametrize(("cores", "tasks"), [(2, LEAST_ELASTIC), (40, 40)], ids=["idle", "busy"])
def test_dynamic_allocation_without_a_limit_has_the_tasks_of_the_present_cluster_but_not_few(cores, tasks):
    assert parallelism(Session({"spark.dynamicAllocation.enabled": "true"}, cores)) == tasks
