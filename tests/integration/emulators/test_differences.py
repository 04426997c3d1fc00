"""The embedded stream responds like the public emulators, except for the listed differences."""

from __future__ import annotations

import pytest

from integration.emulators.differences.by_emulator import patterns
from integration.emulators.scenarios import putting, reading, resharding, shards, streams
from kinesis_assets.emulator.operations import OPERATIONS

SCENARIOS = [
    each
    for theme in (streams, shards, putting, reading, resharding)
    for each in vars(theme).values()
    if getattr(each, "__module__", None) == theme.__name__ and not each.__name__.startswith("_")
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_emulator_differs_only_as_listed(mismatches_of, emulator, scenario):
    unlisted = [
        mismatch
        for mismatch in mismatches_of(emulator, scenario)
        if not any(pattern.covers(mismatch) for pattern in patterns(emulator.name))
    ]
    assert not unlisted, f"{emulator.name} differs (ours | theirs):\n" + "\n".join(map(str, unlisted))


def test_every_listed_difference_exists(mismatches_of, emulator):
    found = [mismatch for scenario in SCENARIOS for mismatch in mismatches_of(emulator, scenario)]
    outdated = [pattern for pattern in patterns(emulator.name) if not any(map(pattern.covers, found))]
    assert not outdated, f"{emulator.name} does not differ in:\n" + "\n".join(map(str, outdated))


def test_scenarios_call_every_operation_with_success_and_with_an_error(embedded, record):
    succeeded, failed = set(), set()
    for scenario in SCENARIOS:
        for step, outcome in record(embedded, scenario).items():
            (failed if isinstance(outcome, str) else succeeded).add(step.partition(":")[0])

    assert succeeded == failed == OPERATIONS.keys()
