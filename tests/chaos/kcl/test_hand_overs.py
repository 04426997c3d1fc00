"""The real Kinesis Client Library before and after a table: no record is lost, and none is in two rows.

`make kcl` repeats it with more handovers, each at another random moment.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from itertools import chain
from pathlib import Path
from uuid import uuid4

import click
import pytest

from chaos.kcl.application import Application
from chaos.kcl.hand_overs import HandOvers
from kinesis_assets.testing import aws_environment
from support.java import class_path, compiled

SOURCES = Path(__file__).parent
HANDOVERS = int(os.environ.get("HANDOVERS", "2"))

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900 * HANDOVERS)]


@pytest.fixture(scope="module")
def done(local_kinesis, kinesis, settings, moto, tmp_path_factory):
    """A stream that was handed over to tables and back, in turn after a graceful stop and after a kill."""
    folder = tmp_path_factory.mktemp("kcl")
    name = f"kcl-{uuid4().hex[:8]}"
    environment = os.environ | aws_environment(local_kinesis)
    program = compiled(SOURCES / "Application.java", class_path(SOURCES, folder), folder)
    application = Application(name, name, (local_kinesis.endpoint_url, moto), program, environment)
    hand_overs = HandOvers(kinesis, settings, application, moto, folder, random.Random())
    try:
        hand_overs.run(HANDOVERS)
    finally:
        application.kill()
    click.echo(
        f"{HANDOVERS} times in each direction, {dict(hand_overs.inside)} inside an aggregate, "
        f"{dict(hand_overs.reshards)}: {hand_overs.put()} records, "
        f"{sum(map(len, hand_overs.landed()))} rows, "
        f"{sum(map(len, hand_overs.processed()))} processed by the application, "
        f"{read_again(hand_overs).total()} read again"
    )
    return hand_overs


def read_again(done):
    """Return how often each record was read once more."""
    return Counter(chain(*done.landed(), *done.processed())) - Counter(range(done.put()))


def test_an_import_is_refused_while_the_application_runs(done):
    assert "so its owner is alive" in done.refusal


def test_each_record_is_in_one_row_or_before_one_checkpoint_of_the_application(done):
    assert Counter(chain(*done.landed(), *done.checked())) == Counter(range(done.put()))


def test_the_application_reads_no_row_again(done):
    landed = done.landed()
    rows = [set(chain(*landed[:worker])) for worker in range(HANDOVERS + 1)]
    assert [found & processed for found, processed in zip(rows, done.processed(), strict=True)] == [set()] * (
        HANDOVERS + 1
    )


def test_only_records_after_the_last_checkpoint_are_read_again(done):
    readings = [reading for worker in done.application.readings() for reading in worker]
    unchecked = Counter(record.item for reading in readings for record in reading.unchecked)
    assert read_again(done) - unchecked == Counter()


def test_shards_were_handed_over_inside_aggregates_in_both_directions(done):
    assert done.inside["import"] > 0
    assert done.inside["export"] > 0


def test_the_stream_was_resharded(done):
    assert done.reshards.total() >= 2 * HANDOVERS
