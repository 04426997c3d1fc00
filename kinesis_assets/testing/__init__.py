"""The test kit: the embedded stream, its clock, and the faults of the real service.

    faults = Faults()
    with LocalKinesis(wrap=faults.around) as local:
        faults.throttle("GetRecords", shard_id="shardId-000000000001", after=2, times=3)

It does not depend on a test framework. See docs/testing.md.
"""

from kinesis_assets.emulator import LocalKinesis
from kinesis_assets.testing.exchange import Answer, Call, CallFilter
from kinesis_assets.testing.faults import Faults
from kinesis_assets.testing.kit import Clock, UserRecord, aggregate, aws_environment

__all__ = [
    "Answer",
    "Call",
    "CallFilter",
    "Clock",
    "Faults",
    "LocalKinesis",
    "UserRecord",
    "aggregate",
    "aws_environment",
]
