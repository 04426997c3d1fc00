"""Start positions of a stream's first plan: their formats, and how they are frozen."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.start_positions import StartPositions
from kinesis_assets.kinesis.stream import Shard, StreamIdentity, StreamListing, StreamSummary

A, B, C = (f"shardId-{number:012}" for number in range(3))
NUMBER = "49680404395535651255759693338678593731398313481915596802"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
BEGINNING = Position(PositionKind.TRIM_HORIZON)
LATEST = Position(PositionKind.LATEST)

MAP = {
    A: "AT_TIMESTAMP:2026-01-31T12:00:00Z",
    B: f"AFTER_SEQUENCE_NUMBER:{NUMBER}:7",
    "default": "LATEST",
}
PARSED = StartPositions(LATEST, {A: Position.at_timestamp(NOON), B: Position.after(NUMBER, 7)})

YAML = f"""
# positions of the previous consumer
{A}: AT_TIMESTAMP:2026-01-31T12:00:00Z
{B}: AFTER_SEQUENCE_NUMBER:{NUMBER}:7
default: LATEST
"""


def listing(*shard_ids, now=NOON):
    """A listing of a stream in which only the last shard is open."""
    shards = [
        Shard(shard_id, (), ("0", "9"), "1", closed=shard_id != shard_ids[-1]) for shard_id in shard_ids
    ]
    identity = StreamIdentity("arn:aws:kinesis:us-east-1:0:stream/orders", NOON - timedelta(days=90))
    return StreamListing(StreamSummary(identity, now, retention_hours=24), shards)


# Formats


@pytest.mark.parametrize(
    "text",
    [
        "TRIM_HORIZON",
        "LATEST",
        "AT_TIMESTAMP:2026-01-31T12:00:00Z",
        f"AT_SEQUENCE_NUMBER:{NUMBER}",
        f"AFTER_SEQUENCE_NUMBER:{NUMBER}",
        f"AFTER_SEQUENCE_NUMBER:{NUMBER}:0",
    ],
)
def test_a_single_position_applies_to_the_whole_stream(text):
    assert StartPositions.of(text) == StartPositions(Position.parse(text))


def test_a_map_has_a_position_for_each_named_shard_and_a_default():
    assert StartPositions.of(MAP) == PARSED


def test_the_written_form_of_a_map_is_read_again():
    for start in (MAP, MAP | {C: "SHARD_END"}, {C: "SHARD_END"}):
        assert StartPositions.of(str(StartPositions.of(start))) == StartPositions.of(start)
    assert StartPositions.of({C: " shard_end"}) == StartPositions(ended=frozenset({C}))


@pytest.mark.parametrize("start", ["SHARD_END", {"default": "SHARD_END"}])
def test_only_named_shards_can_have_been_read_to_their_end(start):
    with pytest.raises(InvalidInput, match="'SHARD_END'"):
        StartPositions.of(start)


def test_a_map_may_be_json_text():
    assert StartPositions.of(f"\n {json.dumps(MAP, indent=1)}") == PARSED


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(YAML, id="yaml"),
        pytest.param(json.dumps(MAP), id="json"),
        pytest.param(json.dumps(MAP, indent=2), id="indented json"),
        pytest.param(json.dumps(MAP, indent="\t"), id="json with tabs"),
    ],
)
def test_a_map_may_be_a_json_or_yaml_file(tmp_path, content):
    path = tmp_path / "starts"
    path.write_text(content)
    assert StartPositions.of(f"file://{path}") == PARSED


@pytest.mark.parametrize("content", ["LATEST\n", '"LATEST"'])
def test_a_file_may_hold_one_position_for_the_whole_stream(tmp_path, content):
    path = tmp_path / "start"
    path.write_text(content)
    assert StartPositions.of(f"file://{path}") == StartPositions(LATEST)


def test_the_default_of_a_map_is_trim_horizon():
    assert StartPositions.of({A: "LATEST"}) == StartPositions(BEGINNING, {A: LATEST})


@pytest.mark.parametrize(
    "starts", [PARSED, StartPositions(), StartPositions(LATEST), StartPositions(BEGINNING, {C: LATEST})]
)
def test_text_reads_back_as_the_same_start_positions(starts):
    assert StartPositions.of(str(starts)) == starts


# Invalid input


@pytest.mark.parametrize(
    "start",
    ["", "EARLIEST", "AT_TIMESTAMP:2026-01-31T12:00:00", "[1]", {A: "EARLIEST"}, '{"default": "EARLIEST"}'],
)
def test_an_invalid_position_is_refused(start):
    with pytest.raises(InvalidInput, match=r"invalid position|UTC offset"):
        StartPositions.of(start)


@pytest.mark.parametrize("text", ["{", '{"a": 5}', '{"a": null}', '{"a": {"b": "LATEST"}}', '{"a", "b"}'])
def test_text_that_is_not_a_map_of_positions_is_refused(text):
    with pytest.raises(InvalidInput, match=r"^start "):
        StartPositions.of(text)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"- LATEST\n- TRIM_HORIZON\n", id="list"),
        pytest.param(b"5", id="number"),
        pytest.param(b"null", id="null"),
        pytest.param(b"default: {kind: LATEST}", id="nested map"),
        pytest.param(b"default: [LATEST]", id="list in a map"),
        pytest.param(b"0: LATEST", id="number as a shard ID"),
        pytest.param(b"default: 2026-01-31T12:00:00Z", id="bare time"),
        pytest.param(b"default: 2026-31-01", id="invalid bare time"),
        pytest.param(b"default: 'LATEST", id="broken YAML"),
        pytest.param(b'{"default": "LATEST"', id="truncated JSON"),
        pytest.param(b"LATEST\n---\nLATEST\n", id="two documents"),
        pytest.param(b"!!python/name:os.system", id="Python tag"),
        pytest.param(b"default: LATE\xffST", id="not UTF-8"),
        pytest.param(b"file://starts.yaml", id="another file"),
    ],
)
def test_the_error_of_an_invalid_file_names_it(tmp_path, content):
    path = tmp_path / "starts.yaml"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"file://.*starts\.yaml") as caught:
        StartPositions.of(f"file://{path}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["missing", "folder"])
def test_the_error_of_an_unreadable_file_names_it(tmp_path, kind):
    path = tmp_path if kind == "folder" else tmp_path / "none.yaml"
    with pytest.raises(InvalidInput, match=f"file://{path}"):
        StartPositions.of(f"file://{path}")


# Freezing


def test_latest_is_frozen_as_the_services_time_for_every_listed_shard():
    at_noon = Position.at_timestamp(NOON)
    assert StartPositions(LATEST).frozen(listing(A, B, C)) == {A: at_noon, B: at_noon, C: at_noon}


def test_latest_of_a_named_shard_is_frozen_as_the_services_time():
    starts = StartPositions.of({B: "LATEST"})
    assert starts.frozen(listing(A, B)) == {A: BEGINNING, B: Position.at_timestamp(NOON)}


def test_other_positions_are_frozen_unchanged():
    starts = StartPositions.of(
        {A: "AT_TIMESTAMP:2026-01-31T11:59:59.999Z", B: f"AT_SEQUENCE_NUMBER:{NUMBER}"}
    )
    assert starts.frozen(listing(A, B, C)) == {**starts.shards, C: BEGINNING}


def test_a_named_shard_has_its_own_start_and_the_rest_the_default():
    frozen = PARSED.frozen(listing(A, B, C))
    assert frozen == {**PARSED.shards, C: Position.at_timestamp(NOON)}


def test_named_shards_that_are_not_listed_are_refused():
    starts = StartPositions.of({C: "LATEST", A: "LATEST", B: "LATEST"})
    with pytest.raises(InvalidInput, match=f"orders.* {A}, {C}, which"):
        starts.frozen(listing(B))


@pytest.mark.parametrize("start", [f"AT_SEQUENCE_NUMBER:{NUMBER}", f"AFTER_SEQUENCE_NUMBER:{NUMBER}:3"])
def test_a_sequence_number_for_a_stream_of_several_shards_is_refused(start):
    with pytest.raises(InvalidInput, match=rf"orders: start {start} .*\b2\b"):
        StartPositions.of(start).frozen(listing(A, B))


def test_a_default_sequence_number_for_several_shards_is_refused():
    starts = StartPositions.of({A: "LATEST", "default": f"AFTER_SEQUENCE_NUMBER:{NUMBER}"})
    with pytest.raises(InvalidInput, match=rf"{NUMBER}.*\b2\b"):
        starts.frozen(listing(A, B, C))


def test_a_default_sequence_number_may_apply_to_one_shard():
    starts = StartPositions.of({A: "LATEST", "default": f"AFTER_SEQUENCE_NUMBER:{NUMBER}"})
    assert starts.frozen(listing(A, B))[B] == Position.after(NUMBER)


@pytest.mark.parametrize(
    "time", ["2026-01-31T12:00:01Z", "2026-01-31T12:00:01+00:00", "2099-01-01T00:00:00Z"]
)
def test_a_timestamp_after_the_services_time_is_refused(time):
    with pytest.raises(InvalidInput, match=f"orders: {B}: .*2026-01-31 12:00:00"):
        StartPositions.of({B: f"AT_TIMESTAMP:{time}"}).frozen(listing(A, B))


@pytest.mark.parametrize("time", ["2026-01-31T12:00:00Z", "2026-01-31T13:30:00+01:30"])
def test_the_current_second_of_the_services_clock_is_accepted(time):
    assert StartPositions.of(f"AT_TIMESTAMP:{time}").frozen(listing(A)) == {A: Position.at_timestamp(NOON)}
