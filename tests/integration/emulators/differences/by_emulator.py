"""All differences between the public emulators and the embedded stream, and which of them is correct.

The authority is the API reference, https://docs.aws.amazon.com/kinesis/latest/APIReference, together with
botocore's model of the service. Where both say nothing, other knowledge about the service decides: the tests
of kinesalite were written to run against the service as well, and issues quote its errors. The list includes
calls that an emulator cannot serve and that are therefore not made.

The tests fail for a pattern that no longer applies, and for a difference that no pattern covers. An
unintended error of the embedded stream is a bug, and is not listed here.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from integration.emulators.differences.kinesalite import KINESALITE
from integration.emulators.differences.kinesis_local import KINESIS_LOCAL
from integration.emulators.recorded_api import NOT_CALLED

if TYPE_CHECKING:
    from integration.emulators.differences.difference import Pattern

DIFFERENCES = {"kinesalite": KINESALITE, "kinesis-local": KINESIS_LOCAL}
"""The differences by emulator."""


def patterns(emulator: str) -> list[Pattern]:
    """Return all patterns for an emulator."""
    return [pattern for difference in DIFFERENCES[emulator] for pattern in difference.patterns]


def is_called(emulator: str, call: str) -> bool:
    """Return whether a call is made to an emulator."""
    return not any(
        pattern.theirs == NOT_CALLED and fnmatchcase(call, pattern.call) for pattern in patterns(emulator)
    )
