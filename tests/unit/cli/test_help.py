"""The help of `kinesis-assets`."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("group", [[], ["catalog"], ["consumer"], ["leases"], ["spark"]], ids=" ".join)
def test_a_group_shows_the_whole_first_sentence_of_each_of_its_commands(cli, group):
    done = cli(*group, "--help")
    assert done.exit_code == 0
    _, _, listed = done.out.partition("\nCommands:\n")
    assert listed
    assert [line for line in listed.splitlines() if not line.endswith(".") or line.endswith("...")] == []
