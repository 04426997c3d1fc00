"""Every error survives copies and other processes."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets import errors
from kinesis_assets.cli.output import OutputFailed
from kinesis_assets.errors import DataLost, KinesisAssetsError

if TYPE_CHECKING:
    from collections.abc import Callable

ARGUMENTS: dict[str, Any] = {
    "args": "a sentence",
    "stream": "clicks",
    "shard_id": "shardId-000000000000",
    "table": "file:///table",
    "sentence": "it failed",
    "reasons": {"shardId-000000000000": "stale"},
    "operation": "GetRecords",
    "code": "InternalFailure",
    "text": "no answer",
    "status": 500,
    "events": [{"shard": "shardId-000000000000"}],
    "errors": {"shardId-000000000000": DataLost("shardId-000000000000", "records may be lost")},
}

KINDS = [
    OutputFailed,
    *(
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, KinesisAssetsError)
    ),
]


def error_of(kind: type[KinesisAssetsError]) -> KinesisAssetsError:
    """Return an error of a class, from its own arguments."""
    return kind(*(ARGUMENTS[name] for name in inspect.signature(kind.__init__).parameters if name != "self"))


def facts(value: Any) -> Any:
    """Return what an error says, and its attributes."""
    if isinstance(value, KinesisAssetsError):
        return type(value), str(value), value.args, facts(vars(value))
    return {name: facts(each) for name, each in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "duplicate",
    [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy],  # noqa: S301  # our own
    ids=["pickle", "copy", "deepcopy"],
)
def test_an_error_survives_pickling_and_copying(
    kind: type[KinesisAssetsError], duplicate: Callable[[KinesisAssetsError], KinesisAssetsError]
) -> None:
    error = error_of(kind)
    error.add_note("in the second attempt")
    assert facts(duplicate(error)) == facts(error)
