"""Output and effect of `kinesis-assets consumer`."""

from __future__ import annotations

import pytest

from support.command_line import single_line_error

pytestmark = pytest.mark.slow


@pytest.fixture
def consumer(cli, bench):
    """Run a command on the consumers of the bench's stream."""
    bench.create()

    def run(name, *arguments):
        endpoint = ["--endpoint-url", str(bench.settings.endpoint_url)]
        return cli("consumer", name, "--stream", bench.stream, *endpoint, *arguments)

    return run


def test_a_registered_consumer_is_shown_until_it_is_deregistered(consumer):
    none = consumer("show", "--json")
    assert (none.lines, none.err) == ([], "The stream has no registered consumer.\n")
    (registered,) = consumer("register", "--name", "lake", "--json").lines
    assert list(registered) == ["stream", "name", "status", "created", "arn"]
    assert registered["name"] == "lake"
    (shown,) = consumer("show", "--json").lines
    assert (shown["arn"], shown["status"]) == (registered["arn"], "ACTIVE")
    (deregistered,) = consumer("deregister", "--name", registered["arn"], "--json").lines
    assert deregistered["arn"] == registered["arn"]
    assert [each["status"] for each in consumer("show", "--json").lines] in ([], ["DELETING"])


def test_the_last_consumer_of_many_is_shown(consumer, faults):
    faults.request("ListStreamConsumers", lambda arguments: {"MaxResults": 1, **arguments})
    for name in ("a", "b", "c"):
        consumer("register", "--name", name)
    assert [each["name"] for each in consumer("show", "--json").lines] == ["a", "b", "c"]


def test_a_consumer_that_is_not_registered_cannot_be_deregistered(consumer):
    consumer("register", "--name", "sea")
    done = consumer("deregister", "--name", "lake")
    assert done.exit_code == 1
    error = single_line_error(done.err)
    assert "there is no consumer lake" in error
    assert "Show the registered ones with `kinesis-assets consumer show`" in error
    assert "un again" not in error
    assert [each["name"] for each in consumer("show", "--json").lines] == ["sea"]


def test_an_invalid_name_is_bad_input(consumer):
    done = consumer("register", "--name", "a lake")
    assert done.exit_code == 2
    assert "invalid consumer 'a lake'" in single_line_error(done.err)
