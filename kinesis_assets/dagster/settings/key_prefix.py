"""The key prefix of a stream's assets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from kinesis_assets.dagster.settings.settings_base import valid
from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.shards import NAME

KEY_PREFIX: Final = ("kinesis",)
"""The prefix of a stream whose settings have none."""


def prefix_of(key_prefix: str | Sequence[str]) -> tuple[str, ...]:
    """Return the parts of the setting `key_prefix`. A text is a single part.

    Raises:
        InvalidInput: There is no part, or a part is invalid.
    """
    parts = (key_prefix,) if isinstance(key_prefix, str) else tuple(key_prefix)
    if not parts:
        raise InvalidInput("key_prefix: give at least one part")
    for part in parts:
        if not NAME.fullmatch(part):
            raise InvalidInput(
                f"key_prefix: invalid part {part[:80]!r}: give a list of parts, each of 1 to 128 letters, "
                "digits, '_', '.' or '-'"
            )
    return parts


KeyPrefix = Annotated[str | Sequence[str], valid(prefix_of)]
"""The type of the setting `key_prefix`."""
