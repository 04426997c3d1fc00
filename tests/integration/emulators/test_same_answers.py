"""The embedded stream answers as the public emulators do, but for what is listed in differences.py."""

from __future__ import annotations

import pytest

from integration.emulators.conversations import putting, reading, resharding, shards, streams
from integration.emulators.differences import lines
from kinesis_assets.emulator.operations import OPERATIONS

CONVERSATIONS = [
    each
    for theme in (streams, shards, putting, reading, resharding)
    for each in vars(theme).values()
    if getattr(each, "__module__", None) == theme.__name__ and not each.__name__.startswith("_")
]


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda conversation: conversation.__name__)
def test_an_emulator_answers_alike_or_otherwise_as_listed(contrasts_of, emulator, conversation):
    unlisted = [
        contrast
        for contrast in contrasts_of(emulator, conversation)
        if not any(line.covers(contrast) for line in lines(emulator.name))
    ]
    assert not unlisted, f"{emulator.name} says otherwise (ours | theirs):\n" + "\n".join(map(str, unlisted))


def test_every_listed_difference_is_there(contrasts_of, emulator):
    found = [contrast for each in CONVERSATIONS for contrast in contrasts_of(emulator, each)]
    gone = [line for line in lines(emulator.name) if not any(map(line.covers, found))]
    assert not gone, f"{emulator.name} does not differ in:\n" + "\n".join(map(str, gone))


def test_every_operation_of_the_embedded_stream_is_both_carried_out_and_refused(embedded, hear):
    carried_out, refused = set(), set()
    for conversation in CONVERSATIONS:
        for step, answer in hear(embedded, conversation).items():
            (refused if isinstance(answer, str) else carried_out).add(step.partition(":")[0])

    assert carried_out == refused == OPERATIONS.keys()
