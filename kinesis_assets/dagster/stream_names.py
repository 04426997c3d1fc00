"""The names of a stream's definitions in Dagster. They follow from the stream's name and its key prefix."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

import dagster as dg

from kinesis_assets.dagster.settings.asset_settings import KEY_PREFIX, prefix_of
from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.stream import StreamAddress

if TYPE_CHECKING:
    from collections.abc import Sequence

JobName = Literal["maintenance", "replay", "seek", "rebuild", "redrive", "catch_up", "prune_history"]
"""The jobs of a stream, which are in `dagster/jobs/`."""


@dataclass(frozen=True, slots=True)
class StreamNames:
    """The names of a stream's definitions.

    Two streams of a project have different asset keys and partitions if their names or prefixes differ. The
    other names have fewer characters, so those of two streams may be the same, which Dagster refuses.

    Attributes:
        prefix: The parts of the asset keys before the name.
    """

    stream: str
    prefix: tuple[str, ...] = KEY_PREFIX

    @classmethod
    def of(cls, stream: str, key_prefix: str | Sequence[str] = KEY_PREFIX) -> Self:
        """Return the names of the definitions that settings declare, for a stream's name or ARN."""
        return cls(StreamAddress.parse(stream).name, prefix_of(key_prefix))

    @classmethod
    def parse(cls, source: str) -> Self:
        """Parse a reference to a stream of a project: its name, ARN or asset key, such as `eu/orders`."""
        if is_key(source):
            *prefix, stream = source.split("/")
            try:
                return cls.of(stream, prefix)
            except InvalidInput:
                raise InvalidInput(
                    f"invalid asset key of a stream {source[:300]!r}: give its key_prefix and its name, such "
                    "as eu/orders"
                ) from None
        return cls.of(source)

    @property
    def stream_key(self) -> dg.AssetKey:
        """The key of the external asset that represents the stream."""
        return dg.AssetKey([*self.prefix, self.stream])

    @property
    def raw_key(self) -> dg.AssetKey:
        """The key of the asset that represents the raw table."""
        return dg.AssetKey([*self.prefix, f"{self.stream}_raw"])

    @property
    def raw_step(self) -> str:
        """The key of the step that materializes the raw asset."""
        return self.raw_key.to_python_identifier()

    @property
    def partitions(self) -> dg.DynamicPartitionsDefinition:
        """The partitions of both assets: each shard is a partition."""
        return dg.DynamicPartitionsDefinition(name=self.partitions_name)

    @property
    def partitions_name(self) -> str:
        """The name under which an instance stores the partitions."""
        return self.stream_key.to_user_string()

    @property
    def io_manager_key(self) -> str:
        """The resource key of the I/O manager."""
        return f"{self.raw_step}_io_manager"

    @property
    def sensor(self) -> str:
        """The name of the sensor that requests runs."""
        return f"{self.raw_step}_sensor"

    @property
    def automation(self) -> str:
        """The name of the sensor that evaluates the automation conditions of the assets below the stream."""
        return f"{self.raw_step}_automation"

    @property
    def group(self) -> str:
        """The name of the assets' group, by default. Dagster allows fewer characters in it than Kinesis."""
        return re.sub(r"[^a-zA-Z0-9_]", "_", self.stream)

    @property
    def checks(self) -> str:
        """The name of the op of the raw asset's checks."""
        return f"{self.raw_step}_checks"

    def job(self, name: JobName) -> str:
        """Return the name of a job."""
        return f"{self.raw_step}_{name}"


def is_key(source: str) -> bool:
    """Return whether a text that names a stream is an asset key, and neither a name nor an ARN."""
    return "/" in source and not source.startswith("arn:")


def op_key(job: str) -> str:
    """Return the name of a job's only op. Dagster requires it to differ from the job's name."""
    return f"{job}_op"
