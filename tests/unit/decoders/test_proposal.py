"""What is proposed for samples of records in the shapes that streams have."""

from __future__ import annotations

from typing import Any

import pytest

from kinesis_assets import KinesisRoutesComponent, KinesisTableComponent
from kinesis_assets.decoders.proposal import Proposal, propose
from support.dagster_components import dagsters_own_warnings, loaded
from support.sampled_shapes import SHAPES

COMPONENTS = {each.__name__: each for each in (KinesisRoutesComponent, KinesisTableComponent)}
PLACE = ("name", "source", "table")


def proposed(*records: bytes) -> Proposal:
    return propose(records, "depot", "depot", "./depot/")


def without_place(settings: Any) -> dict[str, Any]:
    """Return settings without the names of tables."""
    found = {name: value for name, value in settings.items() if name not in PLACE}
    if "routes" in found:
        found["routes"] = [*map(without_place, found["routes"])]
    return found


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_each_shape_is_recognized(shape):
    proposal = proposed(*shape.records)
    assert without_place(proposal.attributes) == shape.proposed
    assert [each for each in shape.comments if not any(each in line for line in proposal.comments)] == []


@dagsters_own_warnings
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_each_proposal_is_loaded(shape):
    proposal = proposed(*shape.records)
    _, definitions = loaded(COMPONENTS[proposal.type], **proposal.attributes)
    assert len(definitions.assets) == 1 + len(proposal.attributes.get("routes", ()))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_table_has_at_most_ten_settings(shape):
    attributes = proposed(*shape.records).attributes
    assert max(map(len, [attributes, *attributes.get("routes", ())])) <= 10
