"""The effects that settings of a stream have, or no longer have, once its table has positions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from kinesis_assets.dagster.settings.stream_settings import RunSettings
from kinesis_assets.kinesis.start_positions import StartPositions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.ingest.preview import Preview

NO_EFFECT = "no effect"


@dataclass(frozen=True, slots=True)
class SettingEffect:
    """The effect of one setting.

    Attributes:
        effect: What it does, in a word or two.
        reason: Why, and what to do instead.
    """

    name: str
    effect: str
    reason: str


def setting_effects(opened: OpenStream, preview: Preview) -> Iterator[SettingEffect]:
    """Yield the settings that have no effect, and those that change more than what a run reads."""
    settings = opened.settings
    if preview.has_positions and StartPositions.of(settings.start) != StartPositions():
        yield SettingEffect(
            "start",
            NO_EFFECT,
            "the table has positions, and runs resume there; `kinesis-assets seek` moves them",
        )
    if opened.arn is not None and opened.kinesis.region_name is not None:
        yield SettingEffect("region_name", NO_EFFECT, "the ARN of the stream names the region")
    if settings.follow_for is not None:
        yield SettingEffect(
            "follow_for",
            "continuous",
            f"a run lasts {settings.follow_for:g} s and commits every {settings.commit_interval:g} s; it "
            "resumes at the same positions as any other run",
        )
    elif settings.commit_interval != RunSettings.model_fields["commit_interval"].default:
        yield SettingEffect("commit_interval", NO_EFFECT, "only continuous runs use it; see follow_for")
    if settings.catalog and opened.table.folder.bucket is None:
        yield SettingEffect("catalog", NO_EFFECT, "only a table on S3 is registered")
    yield from _retention(settings, preview)


def _retention(settings: RunSettings, preview: Preview) -> Iterator[SettingEffect]:
    """Yield the effect of the table's retention on rows that exist."""
    if preview.snapshot is None or preview.listing is None:
        return
    summary, days = preview.listing.summary, settings.retention_days
    amendment = preview.snapshot.amendment(summary.identity)
    floor = None if amendment is None else amendment.floor
    if days is None:
        if floor is not None:
            reason = f"rows that arrived before {floor} were deleted, and a replay does not add them again"
            yield SettingEffect("retention_days", NO_EFFECT, reason)
        return
    first_kept = summary.service_time.date() - timedelta(days=days)
    oldest = min((file.arrival_date for file in preview.snapshot.file_stats()), default=first_kept)
    if oldest < first_kept:
        reason = (
            f"the next maintenance permanently deletes the rows that arrived from {oldest} until before "
            f"{first_kept}"
        )
        yield SettingEffect("retention_days", "deletes rows", reason)
    elif floor is not None and floor > first_kept:
        reason = (
            f"rows that arrived before {floor} were deleted already; "
            "`kinesis-assets maintain --lower-floor` lets a replay add them again"
        )
        yield SettingEffect("retention_days", NO_EFFECT, reason)
