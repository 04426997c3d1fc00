"""The settings of a stream as commands show them: their effective values without secrets, and their effects.

Once a table has positions, some settings have no effect any more, or one beyond what a run reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import yaml

from kinesis_assets.dagster.settings.stream_settings import RunSettings, StreamSettings
from kinesis_assets.dagster.settings.yaml_model import is_template
from kinesis_assets.errors import MASK, InvalidInput, mask_secrets
from kinesis_assets.kinesis.start_positions import StartPositions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.dagster.stream_project import StreamProject
    from kinesis_assets.ingest.preview import Preview

_TYPE = "kinesis_assets.KinesisStreamComponent"

_PARTS_OF_NAMES = r"secret|passw|(?<![a-z])pwd|token|authorization|(?:access|account|api|private)[._-]?key"
"""What names of secrets contain, as a pattern. Some are those of Spark (`spark.redaction.regex`)."""

_SECRET_NAMES = re.compile(rf"{_PARTS_OF_NAMES}|credential$", re.IGNORECASE)

_SECRET_PARTS = re.compile(
    rf"(authorization[\"']?\s*:\s*[\"']?)[^,;&\"']+"
    rf"|((?:{_PARTS_OF_NAMES})[\w.-]*[\"']?\s*[=:]\s*[\"']?)[^\s,;&\"']+",
    re.IGNORECASE,
)
"""Secrets within a value, such as a header, or a system property in the options of the JVM."""


def effective_settings(project: StreamProject) -> dict[str, Any]:
    """Return the component of a stream with all of its settings, defaults included and secrets masked.

    The values of environment variables are inserted, as when a run starts.

    Raises:
        InvalidInput: An environment variable is not set or its value is invalid.
    """
    manager = (project.definitions.resources or {})[project.names.io_manager_key]
    declared: StreamSettings = manager.declared
    given = {name: _value_of(name, value) for name, value in declared.of(StreamSettings).items()}
    settings = StreamSettings(**given).of(StreamSettings)
    return {"type": _TYPE, "attributes": {name: _shown(name, value) for name, value in settings.items()}}


def component_yaml(component: Mapping[str, Any]) -> str:
    """Return what `effective_settings` returns as a `defs.yaml`, in which templates are literal text."""
    attributes = _escaped(component["attributes"])
    head, body = (
        yaml.safe_dump(part, sort_keys=False, allow_unicode=True, width=1000)
        for part in ({"type": component["type"]}, {"attributes": attributes})
    )
    return f"{head}\n{body}"


def _value_of(name: str, value: Any) -> Any:
    variable = getattr(value, "env_var_name", None)
    if variable is None:
        return value
    found = dg.EnvVar(variable).get_value()
    if found is None:
        raise InvalidInput(
            f"{name}: the environment variable {variable} is not set; set it, as it is where runs start"
        )
    return found


def _shown(name: str, value: Any) -> Any:
    """Return a value as YAML and JSON have it, with secrets masked by the names that lead to it."""
    if isinstance(value, Mapping):
        return {str(key): _shown(str(key), each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_shown(name, each) for each in value]
    if value is None or isinstance(value, bool):
        return value
    if _SECRET_NAMES.search(name) and not name.endswith(".provider"):
        return MASK
    if isinstance(value, int | float):
        return value
    return _SECRET_PARTS.sub(rf"\1\2{MASK}", mask_secrets(str(value)))


def _escaped(value: Any) -> Any:
    """Return a value whose texts are no templates, but texts that look like them."""
    if isinstance(value, dict):
        return {key: _escaped(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_escaped(each) for each in value]
    return f"{{{{ {value!a} }}}}" if is_template(value) else value


_NO_EFFECT = "no effect"


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
            _NO_EFFECT,
            "the table has positions, and runs resume there; `kinesis-assets seek` moves them",
        )
    if opened.arn is not None and opened.kinesis.region_name is not None:
        yield SettingEffect("region_name", _NO_EFFECT, "the ARN of the stream names the region")
    if settings.follow_for is not None:
        yield SettingEffect(
            "follow_for",
            "continuous",
            f"a run lasts {settings.follow_for:g} s and commits every {settings.commit_interval:g} s; it "
            "resumes at the same positions as any other run",
        )
    elif settings.commit_interval != RunSettings.model_fields["commit_interval"].default:
        yield SettingEffect("commit_interval", _NO_EFFECT, "only continuous runs use it; see follow_for")
    if settings.catalog and opened.table.folder.bucket is None:
        yield SettingEffect("catalog", _NO_EFFECT, "only a table on S3 is registered")
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
            yield SettingEffect("retention_days", _NO_EFFECT, reason)
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
        yield SettingEffect("retention_days", _NO_EFFECT, reason)
