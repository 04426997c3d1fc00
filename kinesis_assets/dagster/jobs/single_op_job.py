"""The form of all jobs of a stream: a single op, which uses the stream's I/O manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.failures import shown_as_failures
from kinesis_assets.dagster.stream_names import op_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kinesis_assets.dagster.stream_names import JobName, StreamNames


def single_op_job(
    names: StreamNames, kind: JobName, description: str, *, tags: Mapping[str, str] | None = None
) -> Callable[[Callable[..., None]], dg.JobDefinition]:
    """Make a job of a function of an op's context and config. Its errors are shown as they are."""
    name = names.job(kind)

    def decorate(run: Callable[..., None]) -> dg.JobDefinition:
        op = dg.op(name=op_key(name), out=dg.Out(dg.Nothing), required_resource_keys={names.io_manager_key})
        execute = op(shown_as_failures()(run))

        @dg.job(name=name, description=description, tags=tags)
        def job() -> None:
            execute()

        return job

    return decorate
