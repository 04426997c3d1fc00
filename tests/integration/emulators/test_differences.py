"""The embedded stream responds like the public emulators, except where they may differ."""

from __future__ import annotations

import pytest

from integration.emulators.allowed_differences import ALLOWED
from integration.emulators.scenarios import consumers, putting, reading, resharding, shards, streams
from kinesis_assets.emulator.operations import OPERATIONS

SCENARIOS = [
    each
    for theme in (streams, shards, putting, reading, resharding, consumers)
    for each in vars(theme).values()
    if getattr(each, "__module__", None) == theme.__name__ and not each.__name__.startswith("_")
]

WITHOUT_ARGUMENTS = {"DescribeAccountSettings", "DescribeLimits"}
"""The operations that cannot fail."""


@pytest.mark.thorough
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("emulator", ["kinesalite", "kinesis-local"], indirect=True)
def test_emulator_differs_only_where_it_may(mismatches_of, emulator, scenario):
    allowed = ALLOWED[emulator.name]
    found = [mismatch for mismatch in mismatches_of(emulator, scenario) if not allowed.covers(mismatch)]
    assert not found, f"{emulator.name} differs (ours | theirs):\n" + "\n".join(map(str, found))


def test_scenarios_call_every_operation_with_success_and_with_an_error(embedded, record):
    succeeded, failed = set(), set()
    for scenario in SCENARIOS:
        for step, outcome in record(embedded, scenario).items():
            (failed if isinstance(outcome, str) else succeeded).add(step.partition(":")[0])

    assert succeeded == failed | WITHOUT_ARGUMENTS == OPERATIONS.keys()
