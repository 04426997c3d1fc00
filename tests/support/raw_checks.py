"""The checks of a raw table whose positions are not mirrored, with their defaults."""

from __future__ import annotations

from kinesis_assets.dagster.settings.check_settings import Checks

CHECKS = Checks().without(["lease_table"], "only of a stream with the setting lease_table")
