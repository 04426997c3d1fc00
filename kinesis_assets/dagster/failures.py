"""Errors that Dagster shows as they are.

Dagster wraps what an asset or an I/O manager raises, and shows the sentence of the wrapper first. Only a
`dg.Failure` is not wrapped.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import dagster as dg

from kinesis_assets.dagster.graceful_stop import stops_explained
from kinesis_assets.errors import DerivedTablesFailed, KinesisAssetsError, ShardsNotCommitted, with_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_NAMED = 50
"""How many shards or tables the metadata of a failure names. It counts the others."""


@contextmanager
def shown_as_failures() -> Iterator[None]:
    """Raise the package's errors as failures, so that their sentence is the first line of the error card.

    An interrupt gets a sentence, too.

    Raises:
        DagsterExecutionInterruptedError: The run was interrupted.
        KinesisAssetsError: The same error, as a subclass of its class that is also a `dg.Failure`.
    """
    try:
        with stops_explained():
            yield
    except KinesisAssetsError as error:
        raise as_failure(error).with_traceback(error.__traceback__) from error.__cause__


def as_failure(error: KinesisAssetsError) -> KinesisAssetsError:
    """Return an error of the same class and with the same attributes that is also a `dg.Failure`."""
    if isinstance(error, dg.Failure):
        return error
    failure = _restored(type(error), error.args)
    reasons: dict[str, Exception] = {}
    if isinstance(error, ShardsNotCommitted):
        reasons = {**error.tables, **error.errors}  # the sensor looks for the tables
    elif isinstance(error, DerivedTablesFailed):
        reasons = error.errors
    vars(failure).update(
        vars(error),
        description=str(error),
        metadata=_metadata(reasons),
        # The sensor requests the shards again, without those that are done.
        allow_retries=not isinstance(error, ShardsNotCommitted),
    )
    return failure


def _restored(kind: type[KinesisAssetsError], args: Sequence[Any]) -> KinesisAssetsError:
    hashable: Any = kind  # mypy takes a class for no hashable
    failure: KinesisAssetsError = _failure_class(hashable).__new__(_failure_class(hashable), *args)
    return failure


@cache
def _failure_class(kind: type[KinesisAssetsError]) -> type[Any]:
    def reduce(failure: KinesisAssetsError) -> tuple[Any, ...]:
        return _restored, (kind, failure.args), vars(failure)  # no module has the class

    names = {"__module__": kind.__module__, "__doc__": kind.__doc__, "__reduce__": reduce}
    return type(kind.__name__, (kind, dg.Failure), names)


def _metadata(reasons: Mapping[str, Exception]) -> dict[str, dg.MetadataValue[Any]]:
    """Return the reason of each failed shard or table."""
    named: dict[str, dg.MetadataValue[Any]] = {
        name: dg.MetadataValue.text(with_class(reason)) for name, reason in list(reasons.items())[:_NAMED]
    }
    if len(reasons) > _NAMED:
        named["others"] = dg.MetadataValue.text(f"{len(reasons) - _NAMED} more, see their events")
    return named
