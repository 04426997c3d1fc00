"""Which expressions belong together, and which columns they need."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import InvalidInput
from kinesis_assets.operations.compare.comparison import Rules, mentioned


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"keys": ["id"]}, "give --stream-key too"),
        ({"keys": ["a", "b", "c", "d"]}, "give --stream-key too"),
        ({"keys": ["a", "b"], "stream_keys": ["x"]}, "--stream-key: give one for each --key"),
        ({"keys": ["a", "b"], "values": ["c", "d"]}, "--stream-value: give one for each --value"),
        ({"keys": ["a", "b"], "stream_values": ["data"]}, "--stream-value: give one for each --value"),
        ({"keys": ["a", "b"], "latest_by": ["data"]}, "--latest-by: .* needs --stream-key"),
    ],
    ids=str,
)
def test_expressions_that_do_not_belong_together_are_refused(fields, error):
    with pytest.raises(InvalidInput, match=error):
        Rules(**fields)


def test_keys_of_a_position_are_those_of_the_record():
    assert Rules(["shard", "number"]).of_stream["--stream-key"] == ("shard_id", "sequence_number")
    assert Rules(["shard", "number", "sub"]).of_stream["--stream-key"] == (
        "shard_id",
        "sequence_number",
        "sub_sequence_number",
    )


def test_one_value_is_compared_with_the_payload():
    assert Rules(["a", "b"], values=["c"]).of_stream["--stream-value"] == ("data",)
    assert Rules(["a", "b"]).of_stream["--stream-value"] == ()


def test_only_columns_that_an_expression_names_are_needed():
    columns = ["data", "shard_id", "Error", "a`b"]
    assert mentioned(columns, {"--key": ["CAST(`DATA` AS STRING)"], "--where": []}) == ["data", "a`b"]
    assert mentioned(columns, {"--key": ["error"], "--value": ["shard_id"]}) == ["shard_id", "Error", "a`b"]
    assert mentioned(columns, {"--value": ["to_json(struct(*))"]}) == columns
