"""A folder for a chain of positions files."""

from __future__ import annotations

import pytest

from kinesis_assets.table.positions.positions_chain import ChainPolicy
from support.chain_folder import ChainFolder


@pytest.fixture
def chain_of(tmp_path):
    """Create the folder of a chain that is written by a policy."""
    return lambda policy=ChainPolicy(): ChainFolder(tmp_path / "table", policy)
