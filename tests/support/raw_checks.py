"""The checks of a raw table that no mirror is written of, with their defaults."""

from __future__ import annotations

from kinesis_assets.dagster.settings.check_settings import Checks

CHECKS = Checks().without(["lease_table", "catalog"], "only of a stream with the setting")
