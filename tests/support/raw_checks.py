"""The checks of a raw table of which no mirror is written, by no consumer, with their defaults."""

from __future__ import annotations

from kinesis_assets.dagster.settings.check_settings import Checks

CHECKS = Checks().without(["lease_table", "catalog", "consumer"], "only of a stream with the setting")
