"""Every error survives copies and other processes, and says once what to do."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets import errors
from kinesis_assets.cli.output import OutputFailed
from kinesis_assets.errors import (
    CallFailed,
    DataLost,
    KinesisAssetsError,
    RoleNotAssumed,
    reason_of,
)
from kinesis_assets.kinesis.sdk import sdk_failures
from kinesis_assets.kinesis.stream import StreamAddress

if TYPE_CHECKING:
    from collections.abc import Callable

ARGUMENTS: dict[str, Any] = {
    "reason": "it failed",
    "subject": "stream clicks",
    "advice": "Run again",
    "stream": "clicks",
    "shard_id": "shardId-000000000000",
    "table": "file:///table",
    "sentence": "it failed",
    "reasons": {"shardId-000000000000": "stale"},
    "operation": "GetRecords",
    "code": "InternalFailure",
    "message": "no answer",
    "status": 500,
    "events": [{"shard": "shardId-000000000000"}],
    "tables": {"orders": DataLost("shardId-000000000000", "records may be lost")},
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
    given = [each for each in inspect.signature(kind.__init__).parameters.values() if each.name != "self"]
    return kind(
        *(ARGUMENTS[each.name] for each in given if each.kind is not each.KEYWORD_ONLY),
        **{each.name: ARGUMENTS[each.name] for each in given if each.kind is each.KEYWORD_ONLY},
    )


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


def test_the_reason_of_an_error_is_its_message_without_its_subject_and_advice() -> None:
    error = CallFailed("clicks", "GetRecords", "InternalFailure", "no response.")
    assert str(error) == f"stream clicks: {error.reason}. Run again when the cause is resolved"
    assert reason_of(error) == "GetRecords failed with InternalFailure: no response"
    assert reason_of(OSError("no such file")) == "no such file"


def test_a_call_with_a_refused_role_gives_one_advice() -> None:
    refused = RoleNotAssumed("the role cannot be assumed: slow down.", advice="Run again")
    with pytest.raises(CallFailed) as caught, sdk_failures(None, StreamAddress("clicks"), "ListShards"):
        raise refused
    assert str(caught.value).count("Run again") == 1
