"""Where imports and runs are told to spend their time is where they do."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from benchmarks.harness.cpu_profile import package
from benchmarks.harness.import_times import (
    OTHERS,
    STANDARD_LIBRARY,
    besides,
    by_module,
    by_package,
    medians,
    milliseconds,
)
from benchmarks.servers.replay_streams import StreamSpec
from benchmarks.workers import run_profile
from benchmarks.workers.run_profile import RunProfile, told

TOLD = """\
import time: self [us] | cumulative | imported package
import time:       120 |        120 |     encodings.utf_8
a line of who imports
import time:      2500 |       2500 |     botocore.session
import time:       500 |       3000 |   boto3
import time:      1000 |       4000 | dagster_shared.utils
"""


def test_time_of_a_module_is_its_own_without_what_it_imports():
    assert by_module(TOLD) == {
        "encodings.utf_8": 0.12,
        "botocore.session": 2.5,
        "boto3": 0.5,
        "dagster_shared.utils": 1.0,
    }


def test_modules_count_for_the_package_that_they_are_of():
    spent = by_package(by_module(TOLD) | {"yaml.nodes": 4.0, "dagsters": 0.0, "jsonpath": 1.0, "json": 2.0})
    assert {name: each for name, each in spent.items() if each} == {
        "dagster": 1.0,
        "boto3, botocore": 3.0,
        STANDARD_LIBRARY: pytest.approx(2.12),
        OTHERS: 5.0,
    }


def test_median_of_a_package_is_over_all_processes_also_of_those_that_had_none_of_it():
    rounds = [{"dagster": 1.0, "pyspark": 8.0}, {"dagster": 5.0}, {"dagster.core": 2.0, "dagster": 1.0}]
    of_each = medians(rounds)
    assert (of_each["dagster"], of_each["pyspark"]) == (3.0, 0.0)


def test_what_is_imported_besides_is_what_was_not_there():
    more = {"dagster": 7.0, "pyspark": 2.0}
    assert besides(more, {"dagster": 6.0, "yaml": 1.0}) == {"pyspark": 2.0}


def test_a_new_interpreter_tells_what_it_imports_itself():
    assert "colorsys" in milliseconds("import colorsys")
    assert "colorsys" not in milliseconds("import sys")


def busy_at_last(*modules):
    """The package that is busy in the last of some modules, each called by the one before."""
    told = []
    made = [ModuleType(name) for name in modules]
    for module in made:
        vars(module)["look"] = lambda: told.append(package(sys._getframe(1)))
        exec("def call(rest):\n    rest[0].call(rest[1:]) if rest else look()", vars(module))  # noqa: S102
    vars(made[0])["call"](made[1:])
    return told[0]


@pytest.mark.parametrize(
    ("modules", "where"),
    [
        (["dagster._core.execution.api", "json.decoder"], "`dagster._core`"),
        (["dagster._core.execution.api", "botocore.session"], "`botocore`"),
        (["botocore.session", "made_by_namedtuple"], "`botocore`"),
    ],
)
def test_package_is_busy_also_in_what_it_has_the_standard_library_and_made_code_do(modules, where):
    import botocore.session  # noqa: F401, PLC0415
    import dagster  # noqa: F401, PLC0415

    assert busy_at_last(*modules) == where


def test_run_is_told_by_the_shares_of_all_rounds_together():
    of = [
        RunProfile({"`sqlalchemy`": 0.5, "`py4j`": 0.1}, jvm=4.0, workers=2.0),
        RunProfile({"`sqlalchemy`": 0.4, "`dagster._core`": 0.2}, jvm=5.0, workers=2.0),
    ]
    text = told(of)
    assert (
        "4.5 (4.0 to 5.0) CPU s in Spark's JVM, 2.0 in Spark's Python processes, and 0.6 in its own" in text
    )
    assert text.endswith("`sqlalchemy` 75%; `dagster._core` 17%; `py4j` 8%.")


@pytest.mark.usefixtures("environment")
def test_profile_of_a_run_tells_its_process_and_those_of_spark_apart():
    (of,) = run_profile.measure(StreamSpec("profiled", shards=2, pages=1, page_records=10), rounds=1)
    assert {"`sqlalchemy`", "`dagster._core`"} < of.here.keys()
    assert 0.1 < sum(of.here.values()) < of.jvm
    assert of.workers > 0.1
