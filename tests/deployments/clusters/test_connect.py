"""A Spark Connect server of somebody else, whose workers have neither this package nor what it needs."""

from __future__ import annotations

from support.mentions import assert_mentions
from support.tables import numbers, put_numbers


def test_a_run_ships_its_code_and_its_environment(connect_server, packed, run, kinesis, stream, tmp_path):
    put_numbers(kinesis, stream, 400, shards=3)
    code, events, errors = run(spark_config=connect_server.config, python_environment=str(packed))
    assert (code, len(events)) == (0, 3), errors
    assert numbers(tmp_path / "table") == list(range(400))


def test_a_run_has_a_task_for_each_core_of_the_server(
    connect_server, python_with_packages, run, kinesis, stream, tmp_path
):
    put_numbers(kinesis, stream, 400, shards=6)
    code, _, errors = run(spark_config=connect_server.config, python_executable=python_with_packages)
    assert code == 0, errors
    assert len(list((tmp_path / "table").glob("arrival_date=*/*.parquet"))) >= 3, (
        "each task writes one for each date"
    )


def test_a_session_sends_modules_of_its_own(connect_server, shout):
    assert shout(connect_server.config) == "7!"


def test_an_environment_that_is_not_on_this_machine_is_refused(connect_server, run, kinesis, stream):
    put_numbers(kinesis, stream, 3)
    archive = "s3://lake/environment.tar.gz"
    code, _, errors = run(spark_config=connect_server.config, python_environment=archive)
    assert code == 2
    assert_mentions(errors, archive, "python_environment")
