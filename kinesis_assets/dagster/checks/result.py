"""The result of a check, before it is reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dagster as dg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kinesis_assets.dagster.settings.check_settings import Severity
    from kinesis_assets.table.run_files.pause import Pause

WORST = 20
"""The maximum number of rows in a check's metadata. It says how many more there are."""

PAUSED = "paused"
"""The metadata of each result of a paused stream: by whom, since when, why, and how to resume it."""

_OF_READING = frozenset({"lag", "time_to_loss", "every_shard_read"})
"""The checks that say whether a stream is read."""

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check.

    Attributes:
        name: Name of the check.
        passed: Whether it passed.
        severity: Severity if it did not.
        description: What was found, and what to do about it.
        metadata: The numbers, and the worst shards.
    """

    name: str
    passed: bool
    severity: Severity
    description: str
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dagster_severity(self) -> dg.AssetCheckSeverity:
        """The severity in Dagster."""
        return dg.AssetCheckSeverity[self.severity]

    def while_paused(self, pause: Pause) -> CheckResult:
        """Return the result of a paused stream, which is neither well nor broken.

        The checks that say whether it is read are warnings, until records are about to expire.
        """
        paused = f"The stream is {pause}"
        if self.name not in _OF_READING:
            passed, severity, description = self.passed, self.severity, f"{self.description}. {paused}"
        elif self.name == "time_to_loss" and not self.passed:
            passed, severity, description = False, self.severity, f"{paused}. {self.description}"
        else:
            passed, severity, description = False, "WARN", paused
        metadata = {PAUSED: str(pause), **self.metadata}
        return CheckResult(self.name, passed, severity, description, metadata)

    def of(self, key: dg.AssetKey) -> dg.AssetCheckResult:
        """Return the result as the op of a check returns it.

        Args:
            key: The asset that was checked.
        """
        return dg.AssetCheckResult(
            passed=self.passed,
            asset_key=key,
            check_name=self.name,
            severity=self.dagster_severity,
            description=self.description,
            metadata=dict(self.metadata),
        )


def worst(rows: Sequence[Mapping[str, str]], what: str = "shards") -> dict[str, Any]:
    """Return the metadata with the first rows of a table, and the number of those that are left out.

    Args:
        rows: The rows, worst first. All have the same columns.
        what: What the rows are, as the name of the metadata.
    """
    if not rows:
        return {}
    shown: dict[str, Any] = {
        what: dg.MetadataValue.table([dg.TableRecord(dict(row)) for row in rows[:WORST]])
    }
    if len(rows) > WORST:
        shown[f"{what} not shown"] = len(rows) - WORST
    return shown


def duration(seconds: float) -> str:
    """Return a duration for people, such as `45 s`, `12 min`, `3.5 h` or `2.0 days`."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    if seconds < 2 * _DAY:
        return f"{seconds / _HOUR:.1f} h"
    return f"{seconds / _DAY:.1f} days"


def counted(number: int, what: str) -> str:
    """Return a number with the plural of what it counts, such as `1 shard` or `3 shards`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
